//! Logs in with a Kerberos ticket that `kinit` has obtained, and shows the resulting access:
//!
//! ```text
//! kerberos login <address> <service, such as zookeeper/host> <znode to create for the user>
//! kerberos token <service>      the first token of a login, in hexadecimal
//! ```

use std::process::ExitCode;

use transport::sasl::gssapi::Initiator;
use zoarium_client::{Acl, Client, Create, Id, Login, Options};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["login", address, service, path] => log_in(address, service, path).await,
        ["token", service] => show_token(service),
        _ => Err("login <address> <service> <znode>, or token <service>".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("failed {reason}");
            ExitCode::FAILURE
        }
    }
}

async fn log_in(address: &str, service: &str, path: &str) -> Result<(), String> {
    let options = Options::new(address).with_login(Login::kerberos(service));
    let connected = Client::connect(options).await;
    let client = connected.map_err(|error| error.to_string())?;
    let known = client.who_am_i().await.map_err(|error| error.to_string())?;
    for id in known {
        println!("whoami {} {}", id.scheme, id.user);
    }
    let auth = Id {
        scheme: "auth".into(),
        id: "".into(),
    };
    let create = Create::persistent().with_acl(vec![Acl {
        perms: 31,
        id: auth,
    }]);
    match client.create(path, "", &create).await {
        Ok(_) => println!("create ok"),
        Err(error) => println!("create {error}"),
    }
    match client.get_data(path).await {
        Ok(_) => println!("read ok"),
        Err(error) => println!("read {error}"),
    }
    client.close().await.map_err(|error| error.to_string())
}

fn show_token(service: &str) -> Result<(), String> {
    let exchange = Initiator::acquire(None).and_then(|who| who.exchange(service));
    let begun = exchange.and_then(|mut exchange| exchange.begin());
    let token = begun.map_err(|refusal| refusal.to_string())?;
    let digits: Vec<String> = token.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("token {}", digits.concat());
    Ok(())
}
