// Runs a server in this process.

use zoarium::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    std::env::set_current_dir(directory.path())?;
    let server = Server::builder()
        .data_dir("data")
        .port(0)
        .setting("tickTime", 500)
        .start()
        .await?;
    println!("clients connect to {}", server.connect_string());
    server.stop().await?;
    Ok(())
}
