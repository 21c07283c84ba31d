// Creates a znode that only one user may change, and everybody may read.

use zoarium_client::{Acl, Client, Create, Id, Options, Version, digest_id, perms};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let servers = std::env::var("ZOOKEEPER")?;
    let owner: Id = digest_id("bob", "secret");
    let acl = vec![
        Acl {
            perms: perms::ALL,
            id: owner,
        },
        Acl::new(perms::READ, "world", "anyone"),
    ];

    let bob = Client::connect(Options::new(&servers)).await?;
    bob.add_auth("digest", "bob:secret").await?;
    bob.create("/notice", "open", &Create::persistent().with_acl(acl))
        .await?;

    let reader = Client::connect(Options::new(&servers)).await?;
    println!("{:?}", reader.get_data("/notice").await?.0);
    let refused = reader.set_data("/notice", "closed", Version::Any).await;
    assert!(refused.is_err_and(|error| error.is_no_auth()));

    reader.close().await?;
    bob.close().await?;
    Ok(())
}
