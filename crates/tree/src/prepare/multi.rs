//! Preparation of a multi: all its operations succeed, or none.

use proto::ErrorCode;
use proto::multi::MultiFault;
use proto::request::WriteRequest;
use proto::txn::Txn;

use super::length::{ERROR_BYTES, IN_MULTI_BYTES, MULTI_BYTES};
use super::{Grouping, Preparation};

impl Preparation<'_> {
    /// Prepares a multi. Each operation is checked against the state after the previous operations.
    /// After an operation is refused, later operations are not checked, and the changes of the
    /// previous operations are undone. The transaction still contains the previous operations as a
    /// record of the request, unless they would make it too long.
    ///
    /// # Errors
    /// MarshallingError if the multi cannot be decoded, or if an operation is refused with this
    /// error because of a null.
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
            match self.operation(operation, Grouping::InMulti) {
                Ok(txn) => txns.push(txn),
                Err(ErrorCode::MarshallingError) => {
                    self.overlay.roll_back();
                    return Err(ErrorCode::MarshallingError);
                }
                Err(code) => {
                    self.overlay.roll_back();
                    let errors = operations.len() - txns.len();
                    let bytes = kept_bytes + errors * (IN_MULTI_BYTES + ERROR_BYTES);
                    if bytes > self.tree.settings.record_bytes_max {
                        // The previous operations were undone but not refused, so their code is Ok.
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
        self.overlay.commit();
        Ok(Txn::Multi(txns))
    }
}
