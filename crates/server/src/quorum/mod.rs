//! The ports of an ensemble: elections (`mesh`), and both sides of the quorum port (`peer`).

pub(crate) mod auth;
pub(crate) mod mesh;
#[cfg_attr(
    test,
    expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        reason = "numbers of test packets are small"
    )
)]
pub(crate) mod peer;
pub(crate) mod ports;
