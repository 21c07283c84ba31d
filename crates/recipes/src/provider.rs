//! Choice among the instances of a service.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cache::{CacheScope, TreeCache};
use crate::discovery::{Instance, ServiceDiscovery, readable};
use crate::error::{Error, Result};

/// Method of choosing among the instances of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Each instance in turn, in the order of their ids.
    RoundRobin,
    /// A random instance.
    Random,
    /// The last chosen instance, until it disappears or is down.
    Sticky,
}

/// Condition under which an instance is temporarily not chosen, because the application has
/// reported errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownPolicy {
    /// Number of reported errors at which an instance counts as down.
    pub errors: usize,
    /// Time after the first error at which the instance is up again.
    pub time: Duration,
}

impl Default for DownPolicy {
    /// Two errors and 30 seconds, as in Curator.
    fn default() -> Self {
        Self {
            errors: 2,
            time: Duration::from_secs(30),
        }
    }
}

/// Choice among the instances of a service, which are cached in memory.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::{Instance, ServiceDiscovery, ServiceProvider, Strategy};
///
/// let services = ServiceDiscovery::new(&client, "/services")?;
/// # let instance = Instance::new("print", "host-7").at("10.0.0.7", 6310);
/// # let registered = services.register(&instance)?;
/// # registered.is_there().await?;
/// let printers = ServiceProvider::start(&services, "print", Strategy::RoundRobin)?;
/// printers.is_complete().await?;
/// let printer = printers.choose().expect("a printer");
/// assert_eq!(printer.address.as_deref(), Some("10.0.0.7"));
/// // After a failed call:
/// printers.report_error(&printer);
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// Cost: see [`TreeCache`]. A choice does not need a request.
///
/// Source: ServiceCache, ServiceProvider, RoundRobinStrategy, RandomStrategy, StickyStrategy,
/// DownInstancePolicy.
#[derive(Debug)]
#[must_use = "dropping it stops the cache"]
pub struct ServiceProvider {
    services: ServiceDiscovery,
    cache: TreeCache,
    strategy: Strategy,
    policy: DownPolicy,
    choices: Mutex<Choices>,
}

#[derive(Debug, Default)]
struct Choices {
    count: usize,
    /// Id of the instance that was chosen last.
    last: Option<String>,
    /// Number of errors of each instance, by id, and the time of its first error.
    errors: HashMap<String, (usize, Instant)>,
}

impl ServiceProvider {
    /// Starts following the instances of a service. A background task does the work, so the call
    /// requires a tokio runtime.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn start(services: &ServiceDiscovery, name: &str, strategy: Strategy) -> Result<Self> {
        let directory = services.directory(name)?;
        let scope = CacheScope::Children;
        Ok(Self {
            services: services.clone(),
            cache: TreeCache::start_with(&services.client, &directory, scope, |_| true)?,
            strategy,
            policy: DownPolicy::default(),
            choices: Mutex::default(),
        })
    }

    /// Sets the condition under which an instance is temporarily not chosen.
    ///
    /// # Errors
    /// If the number of errors is 0, because no instance could then be chosen.
    pub fn with_down_policy(mut self, policy: DownPolicy) -> Result<Self> {
        if policy.errors == 0 {
            let reason = "an instance without errors cannot be down";
            return Err(Error::Argument {
                recipe: "a service provider".to_owned(),
                reason: reason.to_owned(),
            });
        }
        self.policy = policy;
        Ok(self)
    }

    /// Waits until all instances have been read once.
    ///
    /// # Errors
    /// See [`TreeCache::is_complete`].
    pub async fn is_complete(&self) -> Result<()> {
        self.cache.is_complete().await
    }

    /// Returns the known instances, sorted by id.
    pub fn instances(&self) -> Vec<Instance> {
        let nodes = self.cache.paths().into_iter();
        let instances = nodes.filter_map(|path| readable(&path, &self.cache.get(&path)?.data));
        instances.collect()
    }

    /// Subscribes to a number that changes after each change of the instances.
    pub fn revisions(&self) -> tokio::sync::watch::Receiver<u64> {
        self.cache.revisions()
    }

    /// Chooses an instance. Returns `None` if there are no instances, or if all of them are down.
    pub fn choose(&self) -> Option<Instance> {
        let mut instances = self.instances();
        let now = Instant::now();
        let mut choices = self.choices.lock();
        let Choices {
            count,
            last,
            errors,
        } = &mut *choices;
        errors.retain(|_, (_, since)| now.duration_since(*since) < self.policy.time);
        let is_down = |id: &str| {
            errors
                .get(id)
                .is_some_and(|(n, _)| *n >= self.policy.errors)
        };
        instances.retain(|instance| !is_down(&instance.id));
        let any = || {
            let digits = self.services.client.random_uuid();
            let digits = digits.get(..8).unwrap_or_default();
            usize::from_str_radix(digits, 16).unwrap_or_default()
        };
        let place = match self.strategy {
            Strategy::RoundRobin => *count,
            Strategy::Random => any(),
            Strategy::Sticky => {
                let same = |instance: &Instance| last.as_deref() == Some(&instance.id);
                instances.iter().position(same).unwrap_or_else(any)
            }
        };
        let place = place.checked_rem(instances.len())?;
        *count = count.wrapping_add(1);
        let chosen = instances.swap_remove(place);
        *last = Some(chosen.id.clone());
        Some(chosen)
    }

    /// Records that a call to this instance failed.
    pub fn report_error(&self, instance: &Instance) {
        let mut choices = self.choices.lock();
        let first = (0, Instant::now());
        let (count, _) = choices.errors.entry(instance.id.clone()).or_insert(first);
        *count += 1;
    }

    /// Stops the cache.
    pub async fn close(self) {
        self.cache.close().await;
    }
}
