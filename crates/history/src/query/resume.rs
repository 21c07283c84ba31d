//! Positions at which pages over paths end, without the names of hidden znodes.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest, Sha256};

use crate::error::{HistoryError, Result};
use crate::reading::view::HistoryView;
use crate::reading::viewer::ViewerPermissions;

/// Value of `after` for the next page. This is the last path or name of the page if the viewer may
/// read that znode now, and a sealed path otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPosition(String);

impl From<PathPosition> for String {
    fn from(position: PathPosition) -> Self {
        position.0
    }
}

/// Beginning of a sealed path. No path and no name of a child begins with it.
const SEALED: &str = "//";

/// Size of the checksum that precedes a sealed path, bytes.
const SUM_BYTES: usize = 16;

/// A path is padded to a multiple of this size, bytes, because its length is also hidden.
const PAD_BYTES: usize = 64;

/// Key of sealed paths, which are valid until the process ends.
static KEY: LazyLock<[[u8; 8]; 4]> = LazyLock::new(|| {
    // The standard library seeds each process with random bytes.
    std::array::from_fn(|part| RandomState::new().hash_one(part).to_be_bytes())
});

impl HistoryView {
    /// Returns the position after a path. `shown` is the path, or the part of it that answers
    /// contain.
    pub(crate) fn position_after(
        &self,
        path: &str,
        shown: &str,
        permissions: &ViewerPermissions<'_>,
    ) -> Result<PathPosition> {
        let is_visible = self.may_see_now(path, permissions)?;
        Ok(PathPosition(if is_visible {
            shown.to_owned()
        } else {
            seal(path)
        }))
    }

    /// Returns the path after which a page begins. `prefix` is the part of the path that `after`
    /// omits.
    ///
    /// # Errors
    /// If the viewer may not read the znode now. Otherwise, the number of hidden results after a
    /// chosen path would reveal names.
    pub(crate) fn path_of_position(
        &self,
        prefix: &str,
        after: &str,
        permissions: &ViewerPermissions<'_>,
    ) -> Result<String> {
        if after.starts_with(SEALED) {
            return unseal(after).ok_or_else(|| HistoryError::BadPath {
                text: after.to_owned(),
                reason: "a position is valid until its server restarts",
            });
        }
        let path = format!("{prefix}{after}");
        if self.may_see_now(&path, permissions)? {
            Ok(path)
        } else {
            Err(HistoryError::NoPermission { path })
        }
    }
}

/// Encrypts a path with the key of this process.
fn seal(path: &str) -> String {
    let mut text = path.as_bytes().to_vec();
    text.resize(text.len().next_multiple_of(PAD_BYTES), 0);
    let sum = &keyed_hash(0, &text)[..SUM_BYTES];
    let mut sealed = sum.to_vec();
    sealed.extend(mixed(sum, &text));
    format!("{SEALED}{}", BASE64.encode(sealed))
}

/// Decrypts a path. Returns `None` if this process did not encrypt it.
fn unseal(sealed: &str) -> Option<String> {
    let sealed = BASE64.decode(sealed.strip_prefix(SEALED)?).ok()?;
    let (sum, text) = sealed.split_at_checked(SUM_BYTES)?;
    let mut text = mixed(sum, text);
    if keyed_hash(0, &text)[..SUM_BYTES] != *sum {
        return None;
    }
    // The padding contains zeros, and no path contains a zero.
    text.truncate(
        text.iter()
            .position(|byte| *byte == 0)
            .unwrap_or(text.len()),
    );
    String::from_utf8(text).ok()
}

/// Applies the key stream that begins with `sum`. A second application restores the text.
fn mixed(sum: &[u8], text: &[u8]) -> Vec<u8> {
    let stream = (1u64..).flat_map(|block| keyed_hash(block, sum));
    let bytes = text.iter().zip(stream);
    bytes.map(|(byte, key)| byte ^ key).collect()
}

/// Returns a hash that depends on the key. `purpose` is 0 for checksums, and the number of the block
/// for the key stream.
fn keyed_hash(purpose: u64, text: &[u8]) -> [u8; 32] {
    let hash = Sha256::new().chain_update(KEY.as_flattened());
    let hash = hash.chain_update(purpose.to_be_bytes());
    hash.chain_update(text).finalize().into()
}
