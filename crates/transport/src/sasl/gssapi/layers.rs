//! The last two tokens: which security layers there are, and which one is taken.
//!
//! ```text
//! layers u8 (1 none, 2 signed, 4 encrypted), size u24, of the client then: as whom it acts, in UTF-8
//! ```

use super::GssapiRefusal;

/// No layer behind the login.
const NO_LAYER: u8 = 1;

/// What a server offers. The size has no meaning without a layer; it is the JDK's. Source: GssKrb5Server.doHandshake1.
pub(super) const OFFER: [u8; 4] = [NO_LAYER, 1, 0, 0];

/// As whom the client acts, if it says so.
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

/// What a client answers to an offer.
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
