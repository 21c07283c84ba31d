//! Tests of the exchanges with contexts that only add letters. Kerberos itself is tested with a
//! KDC.

use super::accept::{Accepted, Exchange as Accepting};
use super::context::Context;
use super::initiate::Exchange as Initiating;
use super::{GssapiRefusal, TOKEN_BYTES_MAX, environment};

/// Context that only adds letters. The client's first token is `?`, the server proves itself with
/// `!`, and wrapped messages begin with `w`.
struct FakeContext {
    is_client: bool,
    proves_itself: bool,
    is_established: bool,
}

impl FakeContext {
    fn new(is_client: bool, proves_itself: bool) -> Self {
        Self {
            is_client,
            proves_itself,
            is_established: false,
        }
    }
}

fn library(doing: &'static str) -> GssapiRefusal {
    let reason = "letters".to_owned();
    GssapiRefusal::Library { doing, reason }
}

impl Context for FakeContext {
    fn step(&mut self, token: Option<&[u8]>) -> Result<Option<Vec<u8>>, GssapiRefusal> {
        match (self.is_client, token) {
            (true, None) => {
                self.is_established = !self.proves_itself;
                Ok(Some(b"?".to_vec()))
            }
            (true, Some(b"!")) => {
                self.is_established = true;
                Ok(None)
            }
            (false, Some(b"?")) => {
                self.is_established = true;
                Ok(self.proves_itself.then(|| b"!".to_vec()))
            }
            (false, Some(b"more")) => Ok(Some(b"more".to_vec())),
            _ => Err(library("step")),
        }
    }

    fn is_established(&self) -> bool {
        self.is_established
    }

    fn wrap(&mut self, plain: &[u8]) -> Result<Vec<u8>, GssapiRefusal> {
        Ok([b"w", plain].concat())
    }

    fn unwrap(&mut self, token: &[u8]) -> Result<Vec<u8>, GssapiRefusal> {
        let plain = token.strip_prefix(b"w").ok_or_else(|| library("unwrap"))?;
        Ok(plain.to_vec())
    }

    fn initiator(&self) -> Result<String, GssapiRefusal> {
        Ok("ann@HOME".to_owned())
    }
}

fn server(proves_itself: bool) -> Accepting<FakeContext> {
    Accepting::new(FakeContext::new(false, proves_itself))
}

fn client(proves_itself: bool) -> Initiating<FakeContext> {
    Initiating::new(FakeContext::new(true, proves_itself), "ann@HOME".to_owned())
}

fn challenge(accepted: Result<Accepted, GssapiRefusal>) -> Vec<u8> {
    match accepted {
        Ok(Accepted::Challenge(token)) => token,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_sides_finish_with_and_without_a_proof_of_the_server() {
    for proves_itself in [true, false] {
        let (mut client, mut server) = (client(proves_itself), server(proves_itself));
        let mut token = client.begin().unwrap();
        loop {
            let challenge = challenge(server.step(&token));
            let response = client.step(&challenge).unwrap();
            token = response.token;
            if response.is_last {
                break;
            }
        }
        let done = Accepted::Done {
            name: "ann@HOME".to_owned(),
            acts_as: Some("ann@HOME".to_owned()),
        };
        assert_eq!(server.step(&token), Ok(done));
        assert_eq!(server.step(&token), Err(GssapiRefusal::Over));
        assert_eq!(client.step(b"w"), Err(GssapiRefusal::Over));
        assert_eq!(client.begin(), Err(GssapiRefusal::Over));
    }
}

/// Source: GssKrb5Server.doHandshake1.
#[test]
fn the_offer_equals_the_jdks() {
    assert_eq!(challenge(server(false).step(b"?")), b"w\x01\x01\x00\x00");
}

#[test]
fn tokens_out_of_their_order_are_refused_and_end_the_exchange() {
    let refused = |tokens: &[&[u8]]| {
        let mut server = server(true);
        let (last, first) = tokens.split_last().unwrap();
        for token in first {
            challenge(server.step(token));
        }
        let refusal = server.step(last).unwrap_err();
        assert_eq!(server.step(b"?"), Err(GssapiRefusal::Over));
        refusal
    };
    assert_eq!(refused(&[b""]), GssapiRefusal::Empty);
    assert_eq!(refused(&[b"w\x01\0\0\0"]), library("step"));
    assert_eq!(refused(&[b"?", b"?"]), GssapiRefusal::NotEmpty);
    assert_eq!(refused(&[b"?", b"w\x01\0\0\0"]), GssapiRefusal::NotEmpty);
    assert_eq!(refused(&[b"?", b"", b""]), library("unwrap"));
    assert_eq!(refused(&[b"?", b"", b"?"]), library("unwrap"));
    let more: &[u8] = b"more";
    assert_eq!(refused(&[more, more, more, more]), GssapiRefusal::TooMany);
}

#[test]
fn only_the_absence_of_a_layer_can_be_chosen() {
    let chosen = |plain: &[u8]| {
        let mut server = server(false);
        challenge(server.step(b"?"));
        server.step(&[b"w", plain].concat())
    };
    let done = |acts_as: Option<&str>| {
        Ok(Accepted::Done {
            name: "ann@HOME".to_owned(),
            acts_as: acts_as.map(str::to_owned),
        })
    };
    assert_eq!(chosen(&[1, 0, 0, 0]), done(None));
    assert_eq!(chosen(b"\x01\x01\0\0bob"), done(Some("bob")));
    for layers in [0, 2, 4, 6] {
        let refused = Err(GssapiRefusal::OtherLayer(layers));
        assert_eq!(chosen(&[layers, 0, 0, 0]), refused);
    }
    for malformed in [&b""[..], b"\x01", b"\x01\0\0", b"\x01\0\0\0\xff"] {
        assert_eq!(chosen(malformed), Err(GssapiRefusal::Malformed));
    }
}

#[test]
fn a_client_accepts_only_an_offer_without_a_layer() {
    let offered = |token: &[u8]| {
        let mut client = client(false);
        client.begin().unwrap();
        client.step(token)
    };
    assert!(offered(b"w\x07\0\x10\0").unwrap().is_last);
    assert_eq!(offered(b"w\x06\0\0\0"), Err(GssapiRefusal::NoLayer(6)));
    for malformed in [&b"w"[..], b"w\x01\0\0", b"w\x01\0\0\0\0"] {
        assert_eq!(offered(malformed), Err(GssapiRefusal::Malformed));
    }
    assert_eq!(offered(b"\x01\0\0\0"), Err(library("unwrap")));
}

#[test]
fn long_tokens_are_refused_before_the_library_sees_them() {
    let long = vec![b'?'; TOKEN_BYTES_MAX + 1];
    let refused = GssapiRefusal::TooLong {
        len: TOKEN_BYTES_MAX + 1,
        len_max: TOKEN_BYTES_MAX,
    };
    assert_eq!(server(true).step(&long), Err(refused.clone()));
    let mut client = client(true);
    client.begin().unwrap();
    assert_eq!(client.step(&long), Err(refused));
}

#[test]
fn the_library_gets_the_paths_of_the_key_tabs() {
    let names = |variables: Vec<(&'static str, _)>| -> Vec<&str> {
        variables.into_iter().map(|(name, _)| name).collect()
    };
    let path = Some("/a".as_ref());
    assert_eq!(names(environment(None, None, None)), [""; 0]);
    assert_eq!(names(environment(path, None, None)), ["KRB5_KTNAME"]);
    assert_eq!(
        names(environment(None, path, path)),
        ["KRB5_CLIENT_KTNAME", "KRB5CCNAME", "KRB5_CONFIG"]
    );
}
