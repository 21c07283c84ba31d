//! The current service for clients.

use std::sync::atomic::Ordering;

use executor::sync::AtomicU8;
use replica::Service;

/// The current [`Service`], readable by every connection.
#[derive(Debug, Default)]
pub(super) struct ServiceSwitch(AtomicU8);

impl ServiceSwitch {
    pub(super) fn get(&self) -> Service {
        match self.0.load(Ordering::Acquire) {
            1 => Service::Deciding,
            2 => Service::Forwarding,
            3 => Service::ReadOnly,
            _ => Service::None,
        }
    }

    pub(super) fn set(&self, service: Service) {
        self.0.store(service as u8, Ordering::Release);
    }
}
