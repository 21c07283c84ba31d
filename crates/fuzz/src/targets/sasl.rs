//! Tokens of SASL exchanges.

use config::{SaslLogin, SaslUsers, Secret};
use transport::sasl::{CLIENTS, ClientExchange, ClientStep, ServerExchange, ServerStep};

use crate::{Memory, Target};

pub(super) const TOKENS: Target = Target {
    name: "sasl_tokens",
    run: tokens,
    seeds,
    words: &[
        "username=\"bob\"",
        "realm=",
        "nonce=",
        "nc=00000001",
        "cnonce=",
        "digest-uri=",
        "response=",
        "qop=auth",
        "charset=utf-8",
        "authzid=",
        "rspauth=",
        "algorithm=md5-sess",
        "maxbuf=65536",
        "\"",
        "\\",
        ",",
        "=",
        " ",
    ],
    repair: None,
    memory: Memory::DECODER,
};

fn bob() -> (SaslUsers, SaslLogin) {
    let password = Secret::new("secret");
    let login = SaslLogin {
        user: "bob".to_owned(),
        password: password.clone(),
    };
    (SaslUsers::new([("bob".to_owned(), password)]), login)
}

/// Returns a server's exchange, its challenge, and bob's response.
fn begun() -> (ServerExchange, Vec<u8>, Vec<u8>) {
    let (users, login) = bob();
    let mut server = ServerExchange::new(CLIENTS, [1; 30]);
    let Ok(ServerStep::Challenge(challenge)) = server.step(b"", &users) else {
        panic!("the server did not send a challenge");
    };
    let answered = ClientExchange::new(CLIENTS, [2; 30]).step(&challenge, &login);
    let Ok(ClientStep::Respond(response)) = answered else {
        panic!("the client did not send a response");
    };
    (server, challenge, response)
}

fn seeds() -> Vec<Vec<u8>> {
    let (mut server, challenge, response) = begun();
    let Ok(ServerStep::Done { token, .. }) = server.step(&response, &bob().0) else {
        panic!("the login of bob failed");
    };
    vec![challenge, response, token, Vec::new()]
}

/// Passes the input as each token that either side may receive. The server must either log bob in
/// or end the exchange, and the client must not reveal the password.
fn tokens(data: &[u8]) {
    let (users, login) = bob();
    let (mut server, challenge, _) = begun();
    match server.step(data, &users) {
        Ok(ServerStep::Done { user, .. }) => assert_eq!(user, "bob"),
        Ok(other) => panic!("{other:?}"),
        Err(_) => assert!(server.is_over()),
    }
    let mut client = ClientExchange::new(CLIENTS, [2; 30]);
    if let Ok(ClientStep::Respond(response)) = client.step(data, &login) {
        assert!(!response.windows(6).any(|window| window == b"secret"));
    }
    let mut client = ClientExchange::new(CLIENTS, [2; 30]);
    if client.step(&challenge, &login).is_ok() {
        let _ = client.step(data, &login);
    }
}
