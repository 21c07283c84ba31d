//! The table of recipes in docs/RECIPES.md: each recipe of Curator and kazoo, with its counterpart
//! and measured costs. `ZOARIUM_BLESS=1 cargo test -p zoarium-recipes --test it table` writes it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use tests::workspace_root;

use crate::costs::{Costs, costs};

/// Recipes of Curator 5.9.
const CURATOR: [&str; 26] = [
    "LeaderLatch",
    "LeaderSelector",
    "InterProcessMutex",
    "InterProcessSemaphoreMutex",
    "InterProcessMultiLock",
    "InterProcessReadWriteLock",
    "InterProcessSemaphoreV2",
    "Revoker",
    "DistributedBarrier",
    "DistributedDoubleBarrier",
    "SharedCount",
    "SharedValue",
    "DistributedAtomicLong",
    "DistributedAtomicInteger",
    "CuratorCache",
    "PersistentNode",
    "PersistentTtlNode",
    "GroupMember",
    "DistributedQueue",
    "DistributedIdQueue",
    "DistributedPriorityQueue",
    "DistributedDelayQueue",
    "SimpleDistributedQueue",
    "ServiceDiscovery",
    "ServiceCache",
    "ServiceProvider",
];

/// Recipes of kazoo 2.11.
const KAZOO: [&str; 16] = [
    "Election",
    "Lock",
    "Semaphore",
    "Barrier",
    "DoubleBarrier",
    "Counter",
    "Queue",
    "LockingQueue",
    "Party",
    "ShallowParty",
    "Lease",
    "NonBlockingLease",
    "MultiNonBlockingLease",
    "SetPartitioner",
    "ChildrenWatch",
    "DataWatch",
];

/// Row of the table.
struct Row {
    original: &'static str,
    /// Counterpart of this crate.
    recipe: &'static str,
    /// Layout of znodes: `same`, or the reason for another one.
    layout: &'static str,
    /// Name of the measured costs.
    cost: &'static str,
    fencing: &'static str,
    /// Part of an example in the documentation.
    example: &'static str,
    /// Test that runs the original together with the counterpart.
    test: &'static str,
}

const TOKEN: &str = "token, `check`";
const NONE: &str = "no";
const ITEM: &str = "token; confirmed once";
const SESSION: &str = "ends with its session";
const VERSION: &str = "version";

const WITH_CURATOR: &str = "curator_and_zoarium_share_recipes_in_turn";
const WITH_KAZOO: &str = "kazoo_and_zoarium_share_recipes_in_turn";
const OTHERS_OF_CURATOR: &str = "curator_and_zoarium_share_other_recipes";
const OTHERS_OF_KAZOO: &str = "kazoo_and_zoarium_share_other_recipes";
const QUEUES_OF_CURATOR: &str = "curator_and_zoarium_share_queues";
const KILLS: &str = "holders_are_exclusive_and_in_order_despite_kills";
const MEETING: &str = "members_of_three_libraries_enter_and_leave_together";

const fn row([original, recipe, layout, cost, fencing, example, test]: [&'static str; 7]) -> Row {
    Row {
        original,
        recipe,
        layout,
        cost,
        fencing,
        example,
        test,
    }
}

/// Layout of the recipes that need a directory of locks.
const WITH_LOCKS: &str = "same, if Curator has a lock path; without one it loses items in a crash";

#[rustfmt::skip]
const ROWS_OF_CURATOR: [Row; 26] = [
    row(["LeaderLatch", "`LeaderLatch`; observers: `Election`", "same", "LeaderLatch", TOKEN, r#"LeaderLatch::start(&client, "/leaders/scheduler", "host-7")"#, KILLS]),
    row(["LeaderSelector", "`LeaderSelector`", "same", "LeaderSelector", TOKEN, r#"LeaderSelector::new(&client, "/leaders/reports")"#, KILLS]),
    row(["InterProcessMutex", "`Mutex`", "same", "Mutex", TOKEN, r#"Mutex::new(&client, "/locks/printer")"#, KILLS]),
    row(["InterProcessSemaphoreMutex", "`Semaphore` of 1", "same", "Semaphore", TOKEN, r#"Semaphore::new(&client, "/limits/downloads", 3)"#, OTHERS_OF_CURATOR]),
    row(["InterProcessMultiLock", "`MultiLock`", "same; the same order of locks", "MultiLock", "token, `check` of each lock", "MultiLock::new(locks?)?.acquire()", WITH_CURATOR]),
    row(["InterProcessReadWriteLock", "`ReadWriteLock`", "same", "ReadWriteLock", TOKEN, r#"ReadWriteLock::new(&client, "/locks/catalogue")"#, WITH_CURATOR]),
    row(["InterProcessSemaphoreV2", "`Semaphore`", "same; the same number of leases", "Semaphore", TOKEN, r#"Semaphore::new(&client, "/limits/downloads", 3)"#, WITH_CURATOR]),
    row(["Revoker", "`Mutex::ask_for`, `is_asked_for`", "same", "ask_for", "the holder decides", "mutex.ask_for()", WITH_CURATOR]),
    row(["DistributedBarrier", "`Barrier`", "same", "Barrier", NONE, r#"Barrier::new(&client, "/barriers/upgrade")"#, WITH_CURATOR]),
    row(["DistributedDoubleBarrier", "`DoubleBarrier`", "same", "DoubleBarrier", SESSION, r#"DoubleBarrier::new(&client, "/barriers/step-1", 3)"#, MEETING]),
    row(["SharedCount", "`Counter` with `Width::Int`", "same", "Counter", VERSION, r#"Counter::new(&client, "/counters/seats")?.with_width(Width::Int)"#, WITH_CURATOR]),
    row(["SharedValue", "`SharedValue`", "same", "SharedValue", VERSION, r#"SharedValue::new(&client, "/settings/colour", "blue")"#, WITH_CURATOR]),
    row(["DistributedAtomicLong", "`Counter`; PromotedToLock: `with_promotion`", "same", "Counter", VERSION, r#"Counter::new(&client, "/counters/tickets")"#, OTHERS_OF_CURATOR]),
    row(["DistributedAtomicInteger", "`Counter` with `Width::Int`", "same", "Counter", VERSION, r#"Counter::new(&client, "/counters/seats")?.with_width(Width::Int)"#, WITH_CURATOR]),
    row(["CuratorCache", "`TreeCache`: subtree, children or node", "reads any znodes", "TreeCache", NONE, r#"TreeCache::start(&client, "/settings")"#, WITH_CURATOR]),
    row(["PersistentNode", "`PersistentNode`", "same", "PersistentNode", SESSION, r#"PersistentNode::start(&client, "/hosts/host-7", "10.0.0.7")"#, WITH_CURATOR]),
    row(["PersistentTtlNode", "`PersistentTtlNode`", "same", "PersistentTtlNode", "ends after its TTL", r#"PersistentTtlNode::start(&client, "/jobs/backup", ttl, "host-7")"#, OTHERS_OF_CURATOR]),
    row(["GroupMember", "`GroupMember`", "same", "GroupMember", SESSION, r#"GroupMember::start(&client, "/groups/workers", "host-7", "10.0.0.7")"#, WITH_CURATOR]),
    row(["DistributedQueue", "`Queue`", WITH_LOCKS, "Queue", ITEM, r#"Queue::new(&client, "/queues/mail")"#, QUEUES_OF_CURATOR]),
    row(["DistributedIdQueue", "`IdQueue`", WITH_LOCKS, "IdQueue", ITEM, r#"IdQueue::new(&client, "/queues/orders")"#, QUEUES_OF_CURATOR]),
    row(["DistributedPriorityQueue", "`PriorityQueue`", WITH_LOCKS, "PriorityQueue", ITEM, r#"PriorityQueue::new(&client, "/queues/jobs")"#, QUEUES_OF_CURATOR]),
    row(["DistributedDelayQueue", "`DelayQueue`", WITH_LOCKS, "DelayQueue", ITEM, r#"DelayQueue::new(&client, "/queues/reminders")"#, QUEUES_OF_CURATOR]),
    row(["SimpleDistributedQueue", "`SimpleQueue`", "same", "SimpleQueue", "taken once; loses items of dead consumers", r#"SimpleQueue::new(&client, "/queues/samples")"#, QUEUES_OF_CURATOR]),
    row(["ServiceDiscovery", "`ServiceDiscovery`, dynamic and static", "same JSON", "ServiceDiscovery", SESSION, r#"ServiceDiscovery::new(&client, "/services")"#, WITH_CURATOR]),
    row(["ServiceCache", "`ServiceProvider::instances`", "same JSON", "ServiceProvider", NONE, r#"ServiceProvider::start(&services, "print", Strategy::RoundRobin)"#, WITH_CURATOR]),
    row(["ServiceProvider", "`ServiceProvider`", "same JSON", "ServiceProvider", NONE, r#"ServiceProvider::start(&services, "print", Strategy::RoundRobin)"#, WITH_CURATOR]),
];

/// The recipe that kazoo does not have.
const LEASE: &str = "Lease";

#[rustfmt::skip]
const ROWS_OF_KAZOO: [Row; 16] = [
    row(["Election", "`LeaderSelector` with `Layout::Kazoo`", "same", "LeaderSelector", TOKEN, r#"LeaderSelector::new(&client, "/leaders/reports")"#, KILLS]),
    row(["Lock", "`Mutex` with `Layout::Kazoo`", "same; also ReadLock, WriteLock", "Mutex", TOKEN, r#"Mutex::new(&client, "/locks/printer")?.with_layout(Layout::Kazoo)"#, KILLS]),
    row(["Semaphore", "`Semaphore` with `Layout::Kazoo`", "same; the same number of leases", "Semaphore", TOKEN, r#"Semaphore::new(&client, "/limits/kazoo", 3)?.with_layout(Layout::Kazoo)"#, WITH_KAZOO]),
    row(["Barrier", "`Barrier`", "same", "Barrier", NONE, r#"Barrier::new(&client, "/barriers/upgrade")"#, WITH_KAZOO]),
    row(["DoubleBarrier", "`DoubleBarrier`", "same", "DoubleBarrier", SESSION, r#"DoubleBarrier::new(&client, "/barriers/step-1", 3)"#, MEETING]),
    row(["Counter", "`Counter` with `Width::Int`", "same with `support_curator`; otherwise kazoo writes text", "Counter", VERSION, r#"Counter::new(&client, "/counters/seats")?.with_width(Width::Int)"#, WITH_KAZOO]),
    row(["Queue", "`SimpleQueue` with `Layout::Kazoo`", "same", "SimpleQueue", "taken once; loses items of dead consumers", r#"SimpleQueue::new(&client, "/queues/samples")"#, OTHERS_OF_KAZOO]),
    row(["LockingQueue", "`LockingQueue`", "same", "LockingQueue", ITEM, r#"LockingQueue::new(&client, "/queues/builds")"#, OTHERS_OF_KAZOO]),
    row(["Party", "`Party`", "same", "Party", SESSION, r#"Party::start(&client, "/parties/workers", "host-7")"#, OTHERS_OF_KAZOO]),
    row(["ShallowParty", "`Party::start_shallow`", "same", "ShallowParty", SESSION, r#"Party::start_shallow(&client, "/parties/readers", "host-7")"#, OTHERS_OF_KAZOO]),
    row([LEASE, "the next two", "", "", "", "", ""]),
    row(["NonBlockingLease", "`NonBlockingLease`", "same", "NonBlockingLease", "the clocks must agree", r#"NonBlockingLease::new(&client, "/leases/cleanup", "host-7")"#, OTHERS_OF_KAZOO]),
    row(["MultiNonBlockingLease", "`MultiNonBlockingLease`", "same", "MultiNonBlockingLease", "the clocks must agree", r#"MultiNonBlockingLease::new(&client, "/leases/report", 2, "host-7")"#, WITH_KAZOO]),
    row(["SetPartitioner", "`SetPartitioner`", "same", "SetPartitioner", "token of each item", r#"SetPartitioner::start(&client, "/shards", &["a", "b", "c"], "host-7")"#, OTHERS_OF_KAZOO]),
    row(["ChildrenWatch", "`TreeCache` of children; names: `Client::watch_children`", "reads any znodes", "TreeCache", NONE, r#"TreeCache::start_with(&client, "/hosts", CacheScope::Children, all)"#, WITH_KAZOO]),
    row(["DataWatch", "`TreeCache` of a node", "reads any znodes", "TreeCache", NONE, r#"TreeCache::start_with(&client, "/colour", CacheScope::Node, all)"#, WITH_KAZOO]),
];

impl Row {
    fn status(&self) -> &'static str {
        if self.original == LEASE {
            "not, because kazoo only has a module with this name"
        } else {
            "done"
        }
    }

    fn write(&self, library: &str, costs: &Costs, table: &mut String) {
        let none = [String::new(), String::new()];
        let [once, change] = costs.get(self.cost).unwrap_or(&none);
        let example = match self.example {
            "" => String::new(),
            example => format!("`{example}`"),
        };
        let original = format!("{library} {}", self.original);
        let cells = [
            original.as_str(),
            self.recipe,
            self.layout,
            once.as_str(),
            change.as_str(),
            self.fencing,
            example.as_str(),
            self.status(),
        ];
        writeln!(table, "| {} |", cells.join(" | ")).unwrap();
    }
}

/// Returns all Rust sources in a folder.
fn sources(folder: &Path) -> Vec<String> {
    let mut folders = vec![folder.to_owned()];
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                texts.push(fs::read_to_string(&path).unwrap());
            }
        }
    }
    texts
}

#[test]
fn each_recipe_has_a_row_an_example_and_a_test_with_its_original() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (examples, tests) = (sources(&own.join("src")), sources(&own.join("tests")));
    for (names, rows) in [
        (&CURATOR[..], &ROWS_OF_CURATOR[..]),
        (&KAZOO[..], &ROWS_OF_KAZOO[..]),
    ] {
        assert!(
            rows.iter()
                .map(|row| row.original)
                .eq(names.iter().copied())
        );
        for row in rows.iter().filter(|row| row.original != LEASE) {
            // The tests of the documentation run each example.
            let is_example = |line: &str| {
                let line = line.trim_start();
                line.starts_with("/// ") && line.contains(row.example)
            };
            let mut lines = examples.iter().flat_map(|text| text.lines());
            assert!(lines.any(is_example), "no example: {}", row.example);
            let test = format!("fn {}()", row.test);
            let is_there = tests.iter().any(|text| text.contains(&test));
            assert!(is_there, "{}: no test {}", row.original, row.test);
        }
    }
}

const BEGIN: &str =
    "<!-- recipes: made by ZOARIUM_BLESS=1 cargo test -p zoarium-recipes --test it table -->";
const END: &str = "<!-- end of the recipes -->";

/// The requests and notifications in the table are the measured ones.
#[tokio::test]
async fn the_page_contains_the_table_with_measured_costs() {
    let costs = costs().await;
    let mut table = String::from(
        "| Original | Zoarium | Layout | One use | Change | Fencing | Example | Status |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for row in &ROWS_OF_CURATOR {
        row.write("Curator", &costs, &mut table);
    }
    for row in &ROWS_OF_KAZOO {
        row.write("kazoo", &costs, &mut table);
    }
    let rows = ROWS_OF_CURATOR.iter().chain(&ROWS_OF_KAZOO);
    for row in rows.filter(|row| row.original != LEASE) {
        assert!(costs.contains_key(row.cost), "{}: {costs:?}", row.original);
    }
    let path = workspace_root().join("docs/RECIPES.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let renewed = format!("{before}{BEGIN}\n\n{table}\n{END}{after}");
    if std::env::var_os("ZOARIUM_BLESS").is_some() {
        fs::write(&path, &renewed).unwrap();
    } else {
        assert!(
            page == renewed,
            "{}: see this test\n{table}",
            path.display()
        );
    }
}
