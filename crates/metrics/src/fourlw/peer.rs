//! Addresses and dates in ZooKeeper's format.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;

/// Address of a client: a slash, the uncompressed IP address, and the port. Source:
/// InetSocketAddress.toString.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.0.port();
        match self.0.ip().to_canonical() {
            IpAddr::V4(ip) => write!(f, "/{ip}:{port}"),
            IpAddr::V6(ip) => {
                let [first, rest @ ..] = ip.segments();
                write!(f, "/[{first:x}")?;
                rest.iter()
                    .try_for_each(|segment| write!(f, ":{segment:x}"))?;
                if let SocketAddr::V6(address) = self.0
                    && address.scope_id() != 0
                {
                    write!(f, "%{}", address.scope_id())?;
                }
                write!(f, "]:{port}")
            }
        }
    }
}

/// Time in ms since 1970, printed in the format of `date`. The time zone is always UTC, whereas
/// Java uses the zone of its machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Date(pub(super) i64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nearest = if self.0 < 0 {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        };
        let moment = Timestamp::from_second(self.0.div_euclid(1000)).unwrap_or(nearest);
        write!(f, "{}", moment.strftime("%a %b %d %H:%M:%S UTC %Y"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_not_compressed() {
        for (address, text) in [
            ("127.0.0.1:48800", "/127.0.0.1:48800"),
            ("[::1]:2181", "/[0:0:0:0:0:0:0:1]:2181"),
            ("[2001:db8::ff00:42]:1", "/[2001:db8:0:0:0:0:ff00:42]:1"),
            ("[::ffff:10.0.0.7]:9", "/10.0.0.7:9"),
            ("[fe80::1%2]:9", "/[fe80:0:0:0:0:0:0:1%2]:9"),
        ] {
            assert_eq!(Peer(address.parse().expect("an address")).to_string(), text);
        }
    }

    #[test]
    fn dates_have_the_form_of_date() {
        for (ms, text) in [
            (0, "Thu Jan 01 00:00:00 UTC 1970"),
            (-1, "Wed Dec 31 23:59:59 UTC 1969"),
            (951_825_599_000, "Tue Feb 29 11:59:59 UTC 2000"),
            (1_709_251_200_000, "Fri Mar 01 00:00:00 UTC 2024"),
            (1_795_296_269_999, "Sat Nov 21 21:24:29 UTC 2026"),
            (4_107_542_400_000, "Mon Mar 01 00:00:00 UTC 2100"),
        ] {
            assert_eq!(Date(ms).to_string(), text);
        }
    }

    #[test]
    fn no_date_is_too_far() {
        for ms in [i64::MIN, i64::MAX] {
            assert!(Date(ms).to_string().contains(" UTC "));
        }
    }
}
