use config::{SaslLogin, SaslUsers, Secret};

use crate::sasl::{
    CLIENTS, ClientExchange, ClientStep, MEMBERS, Refusal, ServerExchange, ServerStep,
};

fn users(users: &[(&str, &str)]) -> SaslUsers {
    let users = users.iter();
    SaslUsers::new(users.map(|(user, password)| ((*user).to_owned(), Secret::new(*password))))
}

fn login(user: &str, password: &str) -> SaslLogin {
    SaslLogin {
        user: user.to_owned(),
        password: Secret::new(password),
    }
}

fn server() -> ServerExchange {
    ServerExchange::new(CLIENTS, [7; 30])
}

fn challenge(server: &mut ServerExchange, users: &SaslUsers) -> Vec<u8> {
    match server.step(b"", users) {
        Ok(ServerStep::Challenge(challenge)) => challenge,
        other => panic!("{other:?}"),
    }
}

fn response(challenge: &[u8], login: &SaslLogin) -> Vec<u8> {
    match ClientExchange::new(CLIENTS, [9; 30]).step(challenge, login) {
        Ok(ClientStep::Respond(response)) => response,
        other => panic!("{other:?}"),
    }
}

/// The bytes sent by JDK 17, except for the nonce.
#[test]
fn the_challenge_equals_javas() {
    let challenge = challenge(&mut server(), &users(&[]));
    assert_eq!(
        String::from_utf8(challenge).unwrap(),
        "realm=\"zk-sasl-md5\",nonce=\"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH\",qop=\"auth\",\
         charset=utf-8,algorithm=md5-sess"
    );
}

#[test]
fn both_sides_prove_that_they_know_the_password() {
    for (user, password) in [
        ("bob", "secret"),
        ("b\"o,b\\=", "se\"cr,et\\"),
        ("b\u{fc}b", "\u{fc}"),
        ("\u{4e2d}", "\u{6587}"),
        ("bob", ""),
        ("", "secret"),
    ] {
        let (users, login) = (users(&[(user, password)]), login(user, password));
        let (mut server, mut client) = (server(), ClientExchange::new(CLIENTS, [9; 30]));
        let challenge = challenge(&mut server, &users);
        let Ok(ClientStep::Respond(response)) = client.step(&challenge, &login) else {
            panic!("no response");
        };
        let done = server.step(&response, &users).unwrap();
        let ServerStep::Done {
            token,
            user: who,
            acts_as,
        } = done
        else {
            panic!("not done");
        };
        assert_eq!((&*who, acts_as.as_deref()), (user, Some(user)));
        assert_eq!(client.step(&token, &login), Ok(ClientStep::Done));
        assert_eq!(client.step(&token, &login), Err(Refusal::Over));
        assert!(server.is_over());
        assert_eq!(server.step(&response, &users), Err(Refusal::Over));
    }
}

#[test]
fn wrong_names_and_passwords_are_refused_alike() {
    let known = users(&[("bob", "secret"), ("empty", "")]);
    for (user, password) in [
        ("bob", "Secret"),
        ("bob", ""),
        ("bo", "secret"),
        ("nobody", ""),
    ] {
        let mut server = server();
        let challenge = challenge(&mut server, &known);
        let response = response(&challenge, &login(user, password));
        assert_eq!(
            server.step(&response, &known),
            Err(Refusal::WrongPassword),
            "{user}"
        );
        assert!(server.is_over());
    }
}

#[test]
fn a_token_is_invalid_in_another_exchange() {
    let users = users(&[("bob", "secret")]);
    let mut first = server();
    let challenged = challenge(&mut first, &users);
    let response = response(&challenged, &login("bob", "secret"));
    assert!(first.step(&response, &users).is_ok());
    let mut second = ServerExchange::new(CLIENTS, [8; 30]);
    challenge(&mut second, &users);
    assert_eq!(second.step(&response, &users), Err(Refusal::OtherNonce));
    // A service with a different name also refuses the token.
    let mut member = ServerExchange::new(MEMBERS, [7; 30]);
    challenge(&mut member, &users);
    let refused = member.step(&response, &users);
    assert_eq!(refused, Err(Refusal::Unacceptable("realm")));
}

#[test]
fn the_first_token_is_empty_and_the_second_is_complete() {
    let users = users(&[("bob", "secret")]);
    let mut early = server();
    let first = early.step(b"username=\"bob\"", &users);
    let Ok(ServerStep::Challenge(challenged)) = first else {
        panic!("{first:?}");
    };
    let good = String::from_utf8(response(&challenged, &login("bob", "secret"))).unwrap();
    for missing in [
        "username",
        "realm",
        "nonce",
        "cnonce",
        "digest-uri",
        "response",
    ] {
        let cut = good.replace(&format!(",{missing}="), ",other=");
        let mut server = server();
        challenge(&mut server, &users);
        let refused = server.step(cut.as_bytes(), &users);
        assert_eq!(refused, Err(Refusal::Missing(missing)), "{missing}");
        let twice = format!("{good},{missing}=\"x\"");
        let mut server = self::server();
        challenge(&mut server, &users);
        let refused = server.step(twice.as_bytes(), &users);
        assert_eq!(refused, Err(Refusal::Twice(missing)), "{missing}");
    }
}

#[test]
fn unacceptable_values_are_refused() {
    let users = users(&[("bob", "secret")]);
    for (is, would_be, refusal) in [
        (
            "charset=utf-8",
            "charset=latin1",
            Refusal::Unacceptable("charset"),
        ),
        (
            "realm=\"zk-sasl-md5\"",
            "realm=\"\"",
            Refusal::Unacceptable("realm"),
        ),
        ("nc=00000001", "nc=00000002", Refusal::Unacceptable("nc")),
        ("nc=00000001", "nc=x", Refusal::Unacceptable("nc")),
        ("qop=auth", "qop=auth-int", Refusal::Unacceptable("qop")),
        (
            "digest-uri=\"zookeeper/",
            "digest-uri=\"hbase/",
            Refusal::Unacceptable("digest-uri"),
        ),
        ("response=", "response=0", Refusal::WrongPassword),
        (
            "authzid=\"bob\"",
            "authzid=\"super\"",
            Refusal::WrongPassword,
        ),
        ("username=\"bob\"", "username=\"bob", Refusal::Malformed),
    ] {
        let mut server = server();
        let challenged = challenge(&mut server, &users);
        let good = String::from_utf8(response(&challenged, &login("bob", "secret"))).unwrap();
        assert!(good.contains(is), "{good}");
        let bad = good.replace(is, would_be);
        assert_eq!(
            server.step(bad.as_bytes(), &users),
            Err(refusal),
            "{would_be}"
        );
        assert!(server.is_over());
    }
}

#[test]
fn tokens_are_bounded() {
    let users = users(&[("bob", "secret")]);
    let long = vec![b'a'; 4097];
    let refused = server().step(&long, &users);
    assert!(matches!(refused, Err(Refusal::TooLong { len: 4097, .. })));
    let mut client = ClientExchange::new(CLIENTS, [9; 30]);
    let refused = client.step(&long[..2049], &login("bob", "secret"));
    assert!(matches!(refused, Err(Refusal::TooLong { len: 2049, .. })));
}

#[test]
fn a_client_rejects_a_server_without_the_password() {
    let login = login("bob", "secret");
    let mut client = ClientExchange::new(CLIENTS, [9; 30]);
    let challenge = challenge(&mut server(), &users(&[]));
    assert!(client.step(&challenge, &login).is_ok());
    let refused = client.step(b"rspauth=00000000000000000000000000000000", &login);
    assert_eq!(refused, Err(Refusal::WrongPassword));
    for (challenge, refusal) in [
        (
            "realm=\"zk-sasl-md5\",algorithm=md5-sess",
            Refusal::Missing("nonce"),
        ),
        (
            "realm=\"zk-sasl-md5\",nonce=\"a\"",
            Refusal::Missing("algorithm"),
        ),
        (
            "realm=\"else\",nonce=\"a\",algorithm=md5-sess",
            Refusal::Unacceptable("realm"),
        ),
        ("nonce=\"a\",algorithm=md5-sess", Refusal::Missing("realm")),
        (
            "realm=\"zk-sasl-md5\",nonce=\"a\",algorithm=md5-sess,qop=\"auth-conf\"",
            Refusal::Unacceptable("qop"),
        ),
    ] {
        let mut client = ClientExchange::new(CLIENTS, [9; 30]);
        assert_eq!(
            client.step(challenge.as_bytes(), &login),
            Err(refusal),
            "{challenge}"
        );
    }
}
