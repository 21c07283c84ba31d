//! Tests of the executor's rules on real threads. `tests/` checks all interleavings.

use std::sync::{Arc, LazyLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::*;
use crate::Channel;

const PATIENCE: Duration = Duration::from_secs(30);
const INLINE_TURNS_MAX: usize = 4;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn now_ms() -> i64 {
    i64::try_from(ORIGIN.elapsed().as_millis()).unwrap()
}

fn executor() -> Executor<Bench> {
    Executor::new(Settings {
        inline_turns_max: INLINE_TURNS_MAX,
        yields_before_park: 8,
        now_ms,
    })
}

enum Message {
    /// Message `number`, counted from 0, from thread `of`.
    Next {
        of: usize,
        number: usize,
    },
    /// Sends a signal through the sender. The machine then waits until the other end of the
    /// receiver is dropped.
    Wait(mpsc::Sender<()>, mpsc::Receiver<()>),
    /// Requests a turn after this number of ms.
    Remind(i64),
    Panic,
    End,
}

/// A message or a deadline that the machine has handled.
enum Seen {
    Next { of: usize, number: usize },
    Reminded,
}

struct Bench {
    inbox: Channel<Message>,
    seen: mpsc::Sender<(Seen, thread::ThreadId)>,
    deadline_ms: Option<i64>,
    allows_inline: bool,
    has_ended: bool,
}

impl Bench {
    fn report_seen(&self, seen: Seen) {
        self.seen.send((seen, thread::current().id())).unwrap();
    }
}

impl Machine for Bench {
    type Message = Message;
    type Visitor = ();

    fn turn(&mut self, _visitor: Option<()>) {
        assert!(!self.has_ended, "no more turns");
        match self.inbox.pop() {
            Some(Message::Next { of, number }) => self.report_seen(Seen::Next { of, number }),
            Some(Message::Wait(begun, end)) => {
                begun.send(()).unwrap();
                assert!(end.recv().is_err());
            }
            Some(Message::Remind(ms)) => self.deadline_ms = Some(now_ms() + ms),
            Some(Message::Panic) => panic!("as the test wants it"),
            Some(Message::End) => self.has_ended = true,
            None => {}
        }
        let now_ms = now_ms();
        if self.deadline_ms.take_if(|at_ms| *at_ms <= now_ms).is_some() {
            self.report_seen(Seen::Reminded);
        }
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn deadline_ms(&self) -> Option<i64> {
        self.deadline_ms
    }

    fn allows_inline(&self) -> bool {
        self.allows_inline
    }
}

/// A machine, its thread, and the messages that the machine has handled.
struct Shop {
    executor: Arc<Executor<Bench>>,
    thread: JoinHandle<()>,
    /// Directory of the thread in `/proc`.
    task: std::path::PathBuf,
    seen: mpsc::Receiver<(Seen, thread::ThreadId)>,
}

impl Shop {
    fn open(allows_inline: bool) -> Self {
        let executor = Arc::new(executor());
        let (sender, seen) = mpsc::channel();
        executor.begin(Bench {
            inbox: executor.inbox().clone(),
            seen: sender,
            deadline_ms: None,
            allows_inline,
            has_ended: false,
        });
        let running = executor.clone();
        let (told, task) = mpsc::channel();
        let thread = thread::spawn(move || {
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            told.send(own).unwrap();
            running.run();
        });
        Self {
            executor,
            thread,
            task: std::path::Path::new("/proc").join(task.recv().unwrap()),
            seen,
        }
    }

    /// Opens an executor like [`Shop::open`], but waits until it knows whether the machine permits
    /// inline turns and the machine's thread sleeps.
    fn open_and_asleep(allows_inline: bool) -> Self {
        let shop = Self::open(allows_inline);
        let begun = Instant::now();
        while !shop.is_asleep() {
            assert!(begun.elapsed() < PATIENCE, "it does not sleep");
            thread::yield_now();
        }
        shop
    }

    fn is_asleep(&self) -> bool {
        // Once the thread has set this time, it only releases the machine and sleeps.
        let until_ms = self.executor.parked_until_ms.load(Ordering::SeqCst);
        let stat = std::fs::read_to_string(self.task.join("stat")).unwrap();
        until_ms == i64::MAX && stat.contains(") S ")
    }

    /// Starts a thread that holds the machine until the sender is dropped.
    fn hold(&self) -> Holder {
        let (begun, has_begun) = mpsc::channel();
        let (end, ends) = mpsc::channel();
        let executor = self.executor.clone();
        let thread = thread::spawn(move || {
            executor.put(Message::Wait(begun, ends));
            executor.run_inline(());
        });
        has_begun.recv_timeout(PATIENCE).unwrap();
        (thread, end)
    }

    fn next(&self) -> (Seen, thread::ThreadId) {
        self.seen.recv_timeout(PATIENCE).expect("it is handled")
    }

    fn close(self) {
        self.executor.send(Message::End);
        self.thread.join().unwrap();
        assert!(self.executor.inbox.is_empty());
    }
}

type Holder = (JoinHandle<()>, mpsc::Sender<()>);

fn number(number: usize) -> Message {
    Message::Next { of: 0, number }
}

#[test]
fn each_message_is_handled_once_and_those_of_a_thread_in_their_order() {
    const THREADS: usize = 4;
    const EACH: usize = 20_000;
    for allows_inline in [true, false] {
        let shop = Shop::open(allows_inline);
        let bring = |of: usize| {
            let executor = shop.executor.clone();
            move || {
                for number in 0..EACH {
                    executor.put(Message::Next { of, number });
                    match (number + of) % THREADS {
                        0 => executor.wake(),
                        1 => executor.run_inline_always(()),
                        _ => executor.run_inline(()),
                    }
                }
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|of| thread::spawn(bring(of))).collect();
        let mut next = [0; THREADS];
        for _ in 0..THREADS * EACH {
            match shop.next() {
                (Seen::Next { of, number }, _) => {
                    assert_eq!(number, next[of], "of thread {of}");
                    next[of] += 1;
                }
                (Seen::Reminded, _) => panic!("unexpected input"),
            }
        }
        threads.into_iter().for_each(|one| one.join().unwrap());
        shop.close();
    }
}

#[test]
fn a_visiting_thread_runs_the_machine_for_its_message() {
    let shop = Shop::open_and_asleep(true);
    shop.executor.put(number(0));
    shop.executor.run_inline(());
    // `run_inline` has handled the message when it returns.
    let (_, on) = shop.seen.try_recv().expect("it is handled");
    assert_eq!(on, thread::current().id());
    shop.executor.send(number(1));
    assert_eq!(shop.next().1, shop.thread.thread().id());
    shop.close();
}

#[test]
fn a_machine_that_forbids_inline_turns_has_its_turns_on_its_thread() {
    let shop = Shop::open(false);
    for count in 0..100 {
        shop.executor.put(number(count));
        shop.executor.run_inline(());
        assert_eq!(shop.next().1, shop.thread.thread().id());
    }
    shop.close();
}

#[test]
fn a_thread_that_waits_for_the_machine_runs_it_although_it_forbids_that() {
    let shop = Shop::open_and_asleep(false);
    shop.executor.put(number(0));
    shop.executor.run_inline_always(());
    let (_, on) = shop.seen.try_recv().expect("it is handled");
    assert_eq!(on, thread::current().id());
    shop.close();
}

#[test]
fn a_message_is_handled_by_the_thread_that_holds_the_machine() {
    let shop = Shop::open_and_asleep(true);
    let (holder, end) = shop.hold();
    shop.executor.put(number(0));
    shop.executor.run_inline(());
    shop.executor.send(number(1));
    assert!(shop.seen.try_recv().is_err());
    let on = holder.thread().id();
    drop(end);
    for _ in 0..2 {
        assert_eq!(shop.next().1, on);
    }
    holder.join().unwrap();
    shop.close();
}

#[test]
fn a_visiting_thread_leaves_after_its_limit_of_turns() {
    let shop = Shop::open_and_asleep(true);
    let count = INLINE_TURNS_MAX + 10;
    for of in 0..count {
        shop.executor.put(number(of));
    }
    shop.executor.run_inline(());
    let threads: Vec<_> = (0..count).map(|_| shop.next().1).collect();
    let mine = threads.iter().filter(|on| **on == thread::current().id());
    assert_eq!(mine.count(), INLINE_TURNS_MAX);
    assert_eq!(threads.last(), Some(&shop.thread.thread().id()));
    shop.close();
}

#[test]
fn the_deadline_that_an_inline_turn_sets_is_kept() {
    let shop = Shop::open_and_asleep(true);
    shop.executor.put(Message::Remind(200));
    shop.executor.run_inline(());
    let (seen, on) = shop.next();
    assert!(matches!(seen, Seen::Reminded));
    assert_eq!(on, shop.thread.thread().id());
    shop.close();
}

#[test]
fn the_thread_ends_with_the_machine_and_later_messages_are_dropped() {
    let shop = Shop::open_and_asleep(true);
    shop.executor.put(Message::End);
    shop.executor.put(number(0));
    shop.executor.run_inline(());
    shop.executor.run_inline(());
    shop.thread.join().unwrap();
    assert!(shop.seen.try_recv().is_err());
    let (kept, dropped) = mpsc::channel();
    let (_end, ends) = mpsc::channel();
    shop.executor.send(Message::Wait(kept, ends));
    assert!(dropped.recv_timeout(PATIENCE).is_err());
    assert!(shop.executor.inbox.is_empty());
}

#[test]
fn after_a_panic_in_an_inline_turn_there_are_no_more_turns() {
    let shop = Shop::open_and_asleep(true);
    let executor = shop.executor.clone();
    let panicked = thread::spawn(move || {
        executor.put(Message::Panic);
        executor.run_inline(());
    });
    assert!(panicked.join().is_err());
    shop.executor.send(number(0));
    shop.thread.join().unwrap();
    assert!(shop.seen.try_recv().is_err());
}
