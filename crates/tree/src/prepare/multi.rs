//! multi: all of its operations or none.

use proto::ErrorCode;
use proto::multi::MultiFault;
use proto::request::WriteRequest;
use proto::txn::Txn;

use super::length::{ERROR_BYTES, IN_MULTI_BYTES, MULTI_BYTES};
use super::{Place, Preparation};

impl Preparation<'_> {
    /// Each operation is judged against what those before it leave. Once one is refused, the
    /// others are not looked at, and nothing is left of those before it; the transaction keeps
    /// them all the same, as a record of what was asked, unless that would make it too long.
    ///
    /// # Errors
    /// MarshallingError for a multi that does not decode, or a null in an ACL that is reached.
    pub(super) fn multi(
        &mut self,
        operations: Result<&[WriteRequest], &MultiFault>,
    ) -> Result<Txn, ErrorCode> {
        let operations = operations.map_err(|_| ErrorCode::MarshallingError)?;
        self.bytes += MULTI_BYTES;
        self.overlay.begin();
        let mut txns = Vec::with_capacity(operations.len());
        for operation in operations {
            let kept_bytes = self.bytes;
            self.bytes += IN_MULTI_BYTES;
            match self.operation(operation, Place::InMulti) {
                Ok(txn) => txns.push(txn),
                Err(ErrorCode::MarshallingError) => {
                    self.overlay.take_back();
                    return Err(ErrorCode::MarshallingError);
                }
                Err(code) => {
                    self.overlay.take_back();
                    let errors = operations.len() - txns.len();
                    let bytes = kept_bytes + errors * (IN_MULTI_BYTES + ERROR_BYTES);
                    if bytes > self.tree.settings.record_bytes_max {
                        // What they come to in the end: taken back, no error of their own.
                        txns.fill(Txn::error(ErrorCode::Ok));
                    }
                    txns.push(Txn::error(code));
                    txns.resize(
                        operations.len(),
                        Txn::error(ErrorCode::RuntimeInconsistency),
                    );
                    return Ok(Txn::Multi(txns));
                }
            }
        }
        self.overlay.keep();
        Ok(Txn::Multi(txns))
    }
}
