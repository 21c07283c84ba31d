//! Queues that are shared with Curator and kazoo. A holder must never find another holder inside.

mod shared;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use client::{Client, Create};
use tests::{Missing, java_program, or_skip, python_with_kazoo, run, source_dir};
use zoarium_recipes::{
    Counter, DoubleBarrier, Election, Layout, LeaderLatch, LockingQueue, Mutex, NonBlockingLease,
    Party, PersistentTtlNode, ReadWriteLock, Semaphore, SetPartitioner, SimpleQueue,
};

use crate::support::{children, connect, server, soon, until, until_children};

const ROUNDS: usize = 30;
/// Time limit for a program that starts slowly on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

async fn inside(client: &Client, directory: &str) {
    let witness = format!("{directory}/witness");
    let created = client.create(&witness, "", &Create::ephemeral()).await;
    created.expect("nobody else is inside");
    let number = format!("{directory}/number");
    let (data, stat) = client.get_data(&number).await.unwrap();
    let sum = number_in(data.as_deref()) + 1;
    let set = client.set_data(&number, sum.to_string(), stat.version);
    set.await.unwrap();
    client.delete(&witness, -1).await.unwrap();
}

fn number_in(data: Option<&[u8]>) -> usize {
    std::str::from_utf8(data.unwrap()).unwrap().parse().unwrap()
}

/// Runs a program until it ends, with these arguments after the address.
pub(crate) async fn run_to_the_end(program: Vec<PathBuf>, arguments: Vec<String>) {
    let running = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).args(arguments);
        run(&mut command, LIMIT)
    });
    let printed = running.await.unwrap().unwrap();
    assert!(printed.contains("done"), "{printed}");
}

/// Runs two contenders of this crate and two of the other library.
async fn contend(layout: Layout, program: Vec<PathBuf>) {
    let server = server();
    let client = connect(&server.address()).await;
    let persistent = Create::persistent();
    for (path, data) in [("/c", ""), ("/c/number", "0"), ("/c/second", "")] {
        client.create(path, data, &persistent).await.unwrap();
    }
    client
        .create("/c/second/number", "0", &persistent)
        .await
        .unwrap();
    let mut theirs = Vec::new();
    for _ in 0..2 {
        let arguments = vec![server.address(), "/c".to_owned(), ROUNDS.to_string()];
        theirs.push(tokio::spawn(run_to_the_end(program.clone(), arguments)));
    }
    let mut ours = Vec::new();
    for _ in 0..2 {
        let client = connect(&server.address()).await;
        ours.push(tokio::spawn(async move {
            let mutex = Mutex::new(&client, "/c/lock").unwrap().with_layout(layout);
            let rw = ReadWriteLock::new(&client, "/c/rw").unwrap();
            let rw = rw.with_layout(layout);
            for _ in 0..ROUNDS {
                let guard = mutex.acquire().await.unwrap();
                inside(&client, "/c").await;
                guard.release().await.unwrap();
                let guard = rw.write().await.unwrap();
                inside(&client, "/c/second").await;
                guard.release().await.unwrap();
            }
        }));
    }
    for task in theirs {
        task.await.unwrap();
    }
    for task in ours {
        soon("all rounds", task).await.unwrap();
    }
    for directory in ["/c", "/c/second"] {
        let path = format!("{directory}/number");
        let (data, _) = client.get_data(&path).await.unwrap();
        assert_eq!(number_in(data.as_deref()), 4 * ROUNDS, "{path}");
    }
    until_children(&client, "/c/lock", 0).await;
    until_children(&client, "/c/rw", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs other people's programs"]
async fn curator_and_zoarium_exclude_each_other() {
    let program =
        tokio::task::block_in_place(|| java_program("CuratorContender", &["PatientCurator"], &[]));
    if let Some(program) = or_skip("Curator", program) {
        contend(Layout::Curator, program).await;
    }
}

fn kazoo(script: &str) -> Result<Vec<PathBuf>, Missing> {
    Ok(vec![
        python_with_kazoo()?,
        source_dir("python").join(script),
    ])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs other people's programs"]
async fn kazoo_and_zoarium_exclude_each_other() {
    let program = tokio::task::block_in_place(|| kazoo("contend.py"));
    if let Some(program) = or_skip("kazoo", program) {
        contend(Layout::Kazoo, program).await;
    }
}

/// Runs one program of each library. Each program writes a mark before it enters and one before it
/// leaves.
async fn meet(programs: Vec<Vec<PathBuf>>) {
    const MEETINGS: usize = 5;
    let server = server();
    let client = connect(&server.address()).await;
    let persistent = Create::persistent();
    let make = async |path: &str| {
        client.create(path, "", &persistent).await.unwrap();
    };
    make("/d").await;
    for round in 0..MEETINGS {
        for part in ["", "/come", "/go"] {
            make(&format!("/d/{round}{part}")).await;
        }
    }
    let members = programs.len() + 1;
    let mut theirs = Vec::new();
    for program in programs {
        let numbers = [members.to_string(), MEETINGS.to_string()];
        let mut arguments = vec![server.address(), "/d".to_owned()];
        arguments.extend(numbers);
        theirs.push(tokio::spawn(run_to_the_end(program, arguments)));
    }
    let marked = async |step: &str| {
        client.sync(step).await.unwrap();
        children(&client, step).await.len()
    };
    let ours = async {
        for round in 0..MEETINGS {
            let top = format!("/d/{round}");
            let barrier = DoubleBarrier::new(&client, &format!("{top}/barrier"), members);
            make(&format!("{top}/come/ours")).await;
            let inside = barrier.unwrap().enter().await.unwrap();
            assert_eq!(marked(&format!("{top}/come")).await, members);
            make(&format!("{top}/go/ours")).await;
            inside.leave().await.unwrap();
            assert_eq!(marked(&format!("{top}/go")).await, members);
        }
    };
    tokio::time::timeout(LIMIT, ours).await.expect("all meet");
    for task in theirs {
        task.await.unwrap();
    }
    for round in 0..MEETINGS {
        until_children(&client, &format!("/d/{round}/barrier"), 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs other people's programs"]
async fn members_of_three_libraries_enter_and_leave_together() {
    let programs = tokio::task::block_in_place(|| -> Result<_, Missing> {
        Ok(vec![
            java_program("CuratorMeeting", &["PatientCurator"], &[])?,
            kazoo("meet.py")?,
        ])
    });
    if let Some(programs) = or_skip("Curator and kazoo", programs) {
        meet(programs).await;
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// Creates these znodes below `/c`.
async fn make(client: &Client, names: &[&str]) {
    for name in names {
        let path = format!("/c{name}");
        client
            .create(&path, "", &Create::persistent())
            .await
            .unwrap();
    }
}

async fn with_curator(program: Vec<PathBuf>) {
    let server = server();
    let client = connect(&server.address()).await;
    make(&client, &[""]).await;
    let arguments = vec![server.address(), "/c".to_owned(), ROUNDS.to_string()];
    let theirs = tokio::spawn(run_to_the_end(program, arguments));

    let election = Election::new(&client, "/c/latch").unwrap();
    let ids = async || {
        let all = election.participants().await.unwrap().into_iter();
        all.map(|one| one.id).collect::<Vec<_>>()
    };
    let leads = async || ids().await == ["curator"];
    tokio::time::timeout(LIMIT, until("Curator's candidate", leads))
        .await
        .unwrap();
    let candidate = LeaderLatch::start(&client, "/c/latch", "ours").unwrap();
    until("both candidates", async || {
        ids().await == ["curator", "ours"]
    })
    .await;

    until("the znode with a TTL", async || {
        children(&client, "/c/ttl").await == ["touch"]
    })
    .await;
    let node = PersistentTtlNode::start(&client, "/c/ttl", HOUR, "ours").unwrap();
    node.is_there().await.unwrap();

    let mutex = Semaphore::new(&client, "/c/mutex", 1).unwrap();
    let lock = Mutex::new(&client, "/c/count-lock").unwrap();
    let count = Counter::new(&client, "/c/count").unwrap();
    let count = count.with_promotion(lock, 1);
    for _ in 0..ROUNDS {
        let lease = soon("the lock", mutex.acquire()).await.unwrap();
        let witness = client.create("/c/witness", "", &Create::ephemeral()).await;
        witness.expect("nobody else is inside");
        client.delete("/c/witness", -1).await.unwrap();
        lease.release().await.unwrap();
        soon("an increment", count.add(1)).await.unwrap();
    }
    let all = i64::try_from(2 * ROUNDS).unwrap();
    until("all increments", async || count.get().await.unwrap() == all).await;
    make(&client, &["/end"]).await;
    theirs.await.unwrap();
    soon("the next leader", candidate.leads()).await.unwrap();
    node.close().await;
    for path in ["/c/mutex/leases", "/c/mutex/locks", "/c/count-lock"] {
        until_children(&client, path, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs other people's programs"]
async fn curator_and_zoarium_share_other_recipes() {
    let program =
        tokio::task::block_in_place(|| java_program("CuratorOthers", &["PatientCurator"], &[]));
    if let Some(program) = or_skip("Curator", program) {
        with_curator(program).await;
    }
}

async fn with_kazoo(program: Vec<PathBuf>) {
    let server = server();
    let client = connect(&server.address()).await;
    make(&client, &["", "/seen-set", "/seen-queue", "/seen-locking"]).await;
    let arguments = vec![server.address(), "/c".to_owned(), ROUNDS.to_string()];
    let theirs = tokio::spawn(run_to_the_end(program, arguments));
    let party = Party::start(&client, "/c/party", "ours").unwrap();
    let shallow = Party::start_shallow(&client, "/c/shallow", "ours").unwrap();
    for party in [&party, &shallow] {
        until("both members", async || {
            party.members().await.unwrap() == ["kazoo", "ours"]
        })
        .await;
    }

    let lease = |name| NonBlockingLease::new(&client, &format!("/c/{name}"), "ours").unwrap();
    assert!(lease("theirs").obtain(HOUR).await.unwrap());
    make(&client, &["/leased"]).await;
    until("kazoo's lease", async || {
        let made = client.exists("/c/leased-by-kazoo").await.unwrap();
        made.is_some()
    })
    .await;
    assert!(!lease("kazoos").obtain(HOUR).await.unwrap());

    let partitioner = SetPartitioner::start(&client, "/c/set", &["a", "b", "c"], "ours").unwrap();
    let partitioner = partitioner.with_quiet_time(Duration::from_millis(500));
    let share = async {
        loop {
            let share = partitioner.share().await.unwrap();
            // Until both members have joined, one of them has everything.
            if share.items() == ["b"] {
                return share;
            }
            share.is_outdated().await;
            share.release().await.unwrap();
        }
    };
    let share = soon("the share", share).await;
    make(&client, &["/seen-set/b"]).await;
    until_children(&client, "/c/seen-set", 3).await;
    assert!(share.is_certain());

    let queue = SimpleQueue::with_layout(&client, "/c/queue", Layout::Kazoo).unwrap();
    let locking = LockingQueue::new(&client, "/c/locking").unwrap();
    for number in 0..ROUNDS {
        let item = format!("ours-{number}");
        queue.put(item.clone()).await.unwrap();
        locking.put(item).await.unwrap();
    }
    // Each consumer of an item creates a note, which can succeed only once.
    until("all items", async || {
        if let Some(item) = queue.try_take().await.unwrap() {
            let item = std::str::from_utf8(&item).unwrap();
            make(&client, &[&format!("/seen-queue/{item}")]).await;
        }
        if let Some(taken) = locking.try_take().await.unwrap() {
            let item = std::str::from_utf8(&taken.items()[0]).unwrap().to_owned();
            make(&client, &[&format!("/seen-locking/{item}")]).await;
            taken.confirm().await.unwrap();
        }
        let seen = children(&client, "/c/seen-queue").await.len();
        seen + children(&client, "/c/seen-locking").await.len() == 4 * ROUNDS
    })
    .await;
    make(&client, &["/end"]).await;
    theirs.await.unwrap();
    share.release().await.unwrap();
    until_children(&client, "/c/queue", 0).await;
    until_children(&client, "/c/locking/entries", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs other people's programs"]
async fn kazoo_and_zoarium_share_other_recipes() {
    let program = tokio::task::block_in_place(|| kazoo("others.py"));
    if let Some(program) = or_skip("kazoo", program) {
        with_kazoo(program).await;
    }
}
