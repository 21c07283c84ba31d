//! The last two tokens: the offered security layers and the chosen layer.
//!
//! ```text
//! layers u8 (1 none, 2 signed, 4 encrypted), size u24
//! client only: authorization identity in UTF-8, up to the end
//! ```

use super::refusal::GssapiRefusal;

/// Bit for no security layer after the login.
const NO_LAYER: u8 = 1;

/// Offer of the server. Without a layer, the size is meaningless; the JDK sends this value. Source:
/// GssKrb5Server.doHandshake1.
pub(super) const OFFER: [u8; 4] = [NO_LAYER, 1, 0, 0];

/// Returns the authorization identity that the client requests, if it sends one.
pub(super) fn read_choice(plain: &[u8]) -> Result<Option<String>, GssapiRefusal> {
    let (head, acts_as) = plain
        .split_first_chunk::<4>()
        .ok_or(GssapiRefusal::Malformed)?;
    if head[0] & NO_LAYER == 0 {
        return Err(GssapiRefusal::OtherLayer(head[0]));
    }
    let acts_as = str::from_utf8(acts_as).map_err(|_| GssapiRefusal::Malformed)?;
    Ok(Some(acts_as.to_owned()).filter(|name| !name.is_empty()))
}

/// Returns a client's answer to an offer.
pub(super) fn choose(offer: &[u8], acts_as: &str) -> Result<Vec<u8>, GssapiRefusal> {
    let layers = match offer {
        [layers, _, _, _] => *layers,
        _ => return Err(GssapiRefusal::Malformed),
    };
    if layers & NO_LAYER == 0 {
        return Err(GssapiRefusal::NoLayer(layers));
    }
    let mut choice = vec![NO_LAYER, 0, 0, 0];
    choice.extend_from_slice(acts_as.as_bytes());
    Ok(choice)
}
