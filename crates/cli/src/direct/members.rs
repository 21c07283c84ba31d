//! Output of the member list by `zoarium reconfig`.

use crate::commands::ensemble::{CONFIG, list_value};
use crate::failure::Failure;
use crate::shell::Shell;

/// Prints the member list and its version.
pub(super) async fn print(shell: &mut Shell) -> Result<(), Failure> {
    let client = shell.client("").await?;
    let answer = client.get_data(CONFIG).await;
    let (data, _) = answer.map_err(|error| Failure::of(&error, CONFIG))?;
    let text = String::from_utf8_lossy(data.as_deref().unwrap_or_default()).into_owned();
    shell.show(|| list_value(&text), || text.trim_end().to_owned());
    Ok(())
}
