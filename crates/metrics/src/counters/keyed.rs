//! Metrics with one value per key. A key is a namespace (the first element of a path) or a server's
//! id.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::percentiles::Distribution;
use super::shards::Shards;
use super::summary::Moments;

/// Maximum number of keys per shard of a metric. Clients create namespaces, so without a bound they
/// could exhaust the memory of the server. Further keys are not recorded.
pub const KEYS_MAX: usize = 1000;

/// Maximum length of a key, bytes. The name of a znode may be as long as a request.
const KEY_BYTES_MAX: usize = 256;

/// Values recorded for a key.
pub trait Tally: Default {
    /// Adds a value.
    fn record(&mut self, value: u64);

    /// Adds the values of `other`.
    fn merge(&mut self, other: &Self);
}

impl Tally for u64 {
    fn record(&mut self, value: u64) {
        *self = self.wrapping_add(value);
    }

    fn merge(&mut self, other: &Self) {
        self.record(*other);
    }
}

impl Tally for Moments {
    fn record(&mut self, value: u64) {
        Self::record(self, value);
    }

    fn merge(&mut self, other: &Self) {
        Self::merge(self, other);
    }
}

impl Tally for Distribution {
    fn record(&mut self, value: u64) {
        Self::record(self, value);
    }

    fn merge(&mut self, other: &Self) {
        Self::merge(self, other);
    }
}

/// Tallies, by key.
#[derive(Debug)]
pub struct Keyed<T>(Shards<Mutex<HashMap<Box<str>, T>>>);

/// Counter per key.
pub type CounterSet = Keyed<u64>;
/// Basic summary per key.
pub type SummarySet = Keyed<Moments>;
/// Advanced summary per key.
pub type PercentilesSet = Keyed<Distribution>;

impl<T: Tally> Keyed<T> {
    /// Creates an empty metric for about `shards` writing threads.
    pub fn new(shards: usize) -> Self {
        Self(Shards::new(shards))
    }

    /// Adds a value for `key`.
    pub fn record(&self, key: &str, value: u64) {
        let mut tallies = self.0.own_shard().lock();
        if let Some(tally) = tallies.get_mut(key) {
            tally.record(value);
        } else if tallies.len() < KEYS_MAX && key.len() <= KEY_BYTES_MAX {
            tallies.entry(key.into()).or_default().record(value);
        }
    }

    /// Adds the values of `tally` for `key`.
    pub fn merge(&self, key: &str, tally: &T) {
        let mut tallies = self.0.own_shard().lock();
        if let Some(known) = tallies.get_mut(key) {
            known.merge(tally);
        } else if tallies.len() < KEYS_MAX && key.len() <= KEY_BYTES_MAX {
            tallies.entry(key.into()).or_default().merge(tally);
        }
    }

    /// Returns the values since the last reset, in the order of the keys.
    pub fn get(&self) -> BTreeMap<String, T> {
        let mut all = BTreeMap::<String, T>::new();
        for tallies in self.0.iter() {
            for (key, tally) in tallies.lock().iter() {
                match all.get_mut(&**key) {
                    Some(sum) => sum.merge(tally),
                    None => all.entry(key.to_string()).or_default().merge(tally),
                }
            }
        }
        all
    }

    /// Resets all values. As in Java, existing keys are still shown.
    pub fn reset(&self) {
        for tallies in self.0.iter() {
            tallies
                .lock()
                .values_mut()
                .for_each(|tally| *tally = T::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_key_are_added_over_all_threads() {
        let set = SummarySet::new(4);
        std::thread::scope(|scope| {
            for value in [3, 5] {
                let set = &set;
                scope.spawn(move || {
                    set.record("app", value);
                    set.record("zookeeper", 1);
                });
            }
        });
        let all = set.get();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["app", "zookeeper"]);
        assert_eq!((all["app"].count, all["app"].sum), (2, 8));
        set.reset();
        assert_eq!(set.get()["app"], Moments::default());
    }

    #[test]
    fn the_number_of_keys_is_bounded() {
        let set = CounterSet::new(1);
        (0..2 * KEYS_MAX).for_each(|i| set.record(&i.to_string(), 1));
        assert_eq!(set.get().len(), KEYS_MAX);
        set.record("0", 1);
        set.merge("0", &5);
        set.merge("one too many", &5);
        assert_eq!(set.get()["0"], 7);
        assert_eq!(set.get().len(), KEYS_MAX);
    }

    /// A client can create and delete a znode with a long name, so no quota bounds the keys.
    #[test]
    fn long_keys_are_not_kept() {
        let set = CounterSet::new(1);
        let longest = "x".repeat(KEY_BYTES_MAX);
        set.record(&longest, 1);
        for key in [format!("{longest}x"), "y".repeat(1 << 20)] {
            set.record(&key, 1);
            set.merge(&key, &1);
        }
        assert_eq!(set.get().into_keys().collect::<Vec<_>>(), [longest]);
    }
}
