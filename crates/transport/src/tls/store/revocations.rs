//! Lists of revoked certificates (RFC 5280, section 5), as PEM or DER.

use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use crate::tls::error::StoreFault;

/// Extension of a list that covers only some of the issuer's certificates.
const DISTRIBUTION_POINT: &str = "2.5.29.28";

/// Returns the lists in a file: one in DER, or any number in PEM.
pub(super) fn lists(
    bytes: &[u8],
) -> Result<Vec<CertificateRevocationListDer<'static>>, StoreFault> {
    let fault = |reason: &'static str| StoreFault::NoRevocations { reason };
    // A list in DER begins with an ASN.1 sequence.
    let lists = match bytes.first() {
        Some(0x30) => vec![CertificateRevocationListDer::from(bytes.to_vec())],
        _ => CertificateRevocationListDer::pem_slice_iter(bytes)
            .collect::<Result<_, _>>()
            .map_err(|_| fault("the content is not PEM"))?,
    };
    if lists.is_empty() {
        return Err(fault(
            "the file is empty, or the PEM sections have another type",
        ));
    }
    let mut whole: Vec<Vec<u8>> = Vec::new();
    for list in &lists {
        let (rest, parsed) = CertificateRevocationList::from_der(list)
            .map_err(|_| fault("a list is damaged, or has another type"))?;
        if !rest.is_empty() {
            return Err(fault("bytes follow the end of a list"));
        }
        // The library checks only the first list of an issuer, so an older list would hide the
        // entries of a newer list.
        let issuer = parsed.issuer().as_raw().to_vec();
        let mut parts = parsed.extensions().iter();
        if !parts.any(|extension| extension.oid.to_id_string() == DISTRIBUTION_POINT) {
            if whole.contains(&issuer) {
                return Err(fault(
                    "two lists have the same issuer (keep only the newer list)",
                ));
            }
            whole.push(issuer);
        }
        let entries = parsed.iter_revoked_certificates().count();
        let next_update = parsed.next_update().map(|time| time.to_string());
        tracing::info!(issuer = %parsed.issuer(), entries, next_update, "loaded a list of revoked certificates");
    }
    Ok(lists)
}
