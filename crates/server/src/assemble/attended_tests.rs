//! Whoever brings a message, it is handled once, in its order, and nobody has to come again for it.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

enum Message {
    /// The next one of this thread.
    Next {
        of: usize,
        number: usize,
    },
    /// Says that it is being handled, and goes on when the other end is gone.
    Wait(mpsc::Sender<()>, mpsc::Receiver<()>),
    /// The same, once the worker is let go of; `Next` is told then.
    Errand(mpsc::Sender<()>, mpsc::Receiver<()>),
    /// A turn is wanted so many ms from now.
    Remind(i64),
    Panic,
    End,
}

/// What it has handled, and on which thread.
enum Seen {
    Next { of: usize, number: usize },
    Reminded,
}

struct Bench {
    inbox: Receiver<Message>,
    seen: mpsc::Sender<(Seen, thread::ThreadId)>,
    deadline_ms: Option<i64>,
    may_be_attended: bool,
    errand: Option<Errand>,
    is_over: bool,
}

type Errand = (mpsc::Sender<()>, mpsc::Receiver<()>);

impl Bench {
    fn tell(&self, seen: Seen) {
        self.seen.send((seen, thread::current().id())).unwrap();
    }
}

impl Worker for Bench {
    type Message = Message;
    type Errand = Errand;

    fn turn(&mut self, is_elsewhere: bool) {
        assert!(!self.is_over, "no more turns");
        match self.inbox.try_recv() {
            Ok(Message::Next { of, number }) => self.tell(Seen::Next { of, number }),
            Ok(Message::Wait(begun, end)) => {
                begun.send(()).unwrap();
                assert!(end.recv().is_err());
            }
            Ok(Message::Errand(begun, end)) => {
                assert!(is_elsewhere);
                self.errand = Some((begun, end));
            }
            Ok(Message::Remind(ms)) => self.deadline_ms = Some(clock::session_ms() + ms),
            Ok(Message::Panic) => panic!("as the test wants it"),
            Ok(Message::End) => self.is_over = true,
            Err(_) => {}
        }
        let now_ms = clock::session_ms();
        if self.deadline_ms.take_if(|at_ms| *at_ms <= now_ms).is_some() {
            self.tell(Seen::Reminded);
        }
    }

    fn take_errand(&mut self) -> Option<Errand> {
        self.errand.take()
    }

    fn run_errand((begun, end): Errand, tell: impl FnOnce(Message)) {
        begun.send(()).unwrap();
        assert!(end.recv().is_err());
        tell(number(usize::MAX));
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn deadline_ms(&self) -> Option<i64> {
        self.deadline_ms
    }

    fn may_be_attended(&self) -> bool {
        self.may_be_attended
    }
}

/// A worker, its thread, and what it has seen.
struct Shop {
    attended: Arc<Attended<Bench>>,
    thread: JoinHandle<()>,
    /// Of the thread, below `/proc`.
    task: std::path::PathBuf,
    seen: mpsc::Receiver<(Seen, thread::ThreadId)>,
}

impl Shop {
    fn open(may_be_attended: bool) -> Self {
        let attended = Arc::new(Attended::new(2));
        let (sender, seen) = mpsc::channel();
        attended.begin(Bench {
            inbox: attended.inbox().clone(),
            seen: sender,
            deadline_ms: None,
            may_be_attended,
            errand: None,
            is_over: false,
        });
        let running = attended.clone();
        let (told, task) = mpsc::channel();
        let thread = thread::spawn(move || {
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            told.send(own).unwrap();
            running.run();
        });
        Self {
            attended,
            thread,
            task: std::path::Path::new("/proc").join(task.recv().unwrap()),
            seen,
        }
    }

    /// As [`Shop::open`], once it is known whether it may be attended to, and its thread sleeps.
    fn open_and_asleep(may_be_attended: bool) -> Self {
        let shop = Self::open(may_be_attended);
        let begun = std::time::Instant::now();
        while !shop.is_asleep() {
            assert!(begun.elapsed() < PATIENCE, "it does not sleep");
            thread::yield_now();
        }
        shop
    }

    fn is_asleep(&self) -> bool {
        // From here on it only lets go of the worker and sleeps.
        let until_ms = self.attended.sleeps_until_ms.load(Ordering::SeqCst);
        let stat = std::fs::read_to_string(self.task.join("stat")).unwrap();
        until_ms == i64::MAX && stat.contains(") S ")
    }

    /// A thread that attends to such a message, once it does: until the sender is gone.
    fn hold(&self, message: fn(mpsc::Sender<()>, mpsc::Receiver<()>) -> Message) -> Holder {
        let (begun, has_begun) = mpsc::channel();
        let (end, ends) = mpsc::channel();
        let attended = self.attended.clone();
        let thread = thread::spawn(move || {
            attended.put(message(begun, ends));
            attended.attend();
        });
        has_begun.recv_timeout(PATIENCE).unwrap();
        (thread, end)
    }

    fn next(&self) -> (Seen, thread::ThreadId) {
        self.seen.recv_timeout(PATIENCE).expect("it is handled")
    }

    fn close(self) {
        self.attended.send(Message::End);
        self.thread.join().unwrap();
        assert!(self.attended.inbox.is_empty());
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
    for may_be_attended in [true, false] {
        let shop = Shop::open(may_be_attended);
        let bring = |of: usize| {
            let attended = shop.attended.clone();
            move || {
                for number in 0..EACH {
                    attended.put(Message::Next { of, number });
                    match (number + of) % THREADS {
                        0 => attended.wake(),
                        1 => attended.take_turns(),
                        _ => attended.attend(),
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
                (Seen::Reminded, _) => panic!("nobody wanted that"),
            }
        }
        threads.into_iter().for_each(|one| one.join().unwrap());
        shop.close();
    }
}

#[test]
fn who_brings_a_message_gives_the_worker_its_turn() {
    let shop = Shop::open_and_asleep(true);
    shop.attended.put(number(0));
    shop.attended.attend();
    // It is there when this returns.
    let (_, on) = shop.seen.try_recv().expect("it is handled");
    assert_eq!(on, thread::current().id());
    shop.attended.send(number(1));
    assert_eq!(shop.next().1, shop.thread.thread().id());
    shop.close();
}

#[test]
fn a_worker_that_may_not_be_attended_to_has_its_turns_on_its_thread() {
    let shop = Shop::open(false);
    for count in 0..100 {
        shop.attended.put(number(count));
        shop.attended.attend();
        assert_eq!(shop.next().1, shop.thread.thread().id());
    }
    shop.close();
    // Nor where nobody else could run.
    let attended = Attended::<Bench>::new(1);
    attended.let_go(Held(attended.worker.lock()));
    assert!(!attended.may_attend.load(Ordering::SeqCst));
}

#[test]
fn a_thread_that_waits_for_the_worker_gives_it_its_turn_whatever_it_has_said() {
    let shop = Shop::open_and_asleep(false);
    shop.attended.put(number(0));
    shop.attended.take_turns();
    let (_, on) = shop.seen.try_recv().expect("it is handled");
    assert_eq!(on, thread::current().id());
    shop.close();
}

#[test]
fn a_message_that_finds_the_worker_taken_is_handled_by_who_has_it() {
    let shop = Shop::open_and_asleep(true);
    let (holder, end) = shop.hold(Message::Wait);
    shop.attended.put(number(0));
    shop.attended.attend();
    shop.attended.send(number(1));
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
fn an_errand_holds_up_nobody_but_the_thread_that_runs_it() {
    let shop = Shop::open_and_asleep(true);
    let (runner, end) = shop.hold(Message::Errand);
    shop.attended.put(number(0));
    shop.attended.attend();
    assert_eq!(shop.next().1, thread::current().id());
    shop.attended.send(number(1));
    assert_eq!(shop.next().1, shop.thread.thread().id());
    drop(end);
    let (done, _) = shop.next();
    assert!(matches!(
        done,
        Seen::Next {
            number: usize::MAX,
            ..
        }
    ));
    runner.join().unwrap();
    shop.close();
}

#[test]
fn a_thread_that_attends_does_not_stay_for_ever() {
    let shop = Shop::open_and_asleep(true);
    let count = limits::TURNS_ON_OTHER_THREADS + 10;
    for of in 0..count {
        shop.attended.put(number(of));
    }
    shop.attended.attend();
    let threads: Vec<_> = (0..count).map(|_| shop.next().1).collect();
    let mine = threads.iter().filter(|on| **on == thread::current().id());
    assert_eq!(mine.count(), limits::TURNS_ON_OTHER_THREADS);
    assert_eq!(threads.last(), Some(&shop.thread.thread().id()));
    shop.close();
}

#[test]
fn a_deadline_that_comes_of_a_turn_elsewhere_is_kept() {
    let shop = Shop::open_and_asleep(true);
    shop.attended.put(Message::Remind(200));
    shop.attended.attend();
    let (seen, on) = shop.next();
    assert!(matches!(seen, Seen::Reminded));
    assert_eq!(on, shop.thread.thread().id());
    shop.close();
}

#[test]
fn the_thread_ends_when_the_worker_is_over_and_what_comes_then_is_dropped() {
    let shop = Shop::open_and_asleep(true);
    shop.attended.put(Message::End);
    shop.attended.put(number(0));
    shop.attended.attend();
    shop.attended.attend();
    shop.thread.join().unwrap();
    assert!(shop.seen.try_recv().is_err());
    let (kept, dropped) = mpsc::channel();
    let (_end, ends) = mpsc::channel();
    shop.attended.send(Message::Wait(kept, ends));
    assert!(dropped.recv_timeout(PATIENCE).is_err());
    assert!(shop.attended.inbox.is_empty());
}

#[test]
fn behind_a_panic_elsewhere_there_are_no_more_turns() {
    let shop = Shop::open_and_asleep(true);
    let attended = shop.attended.clone();
    let panicked = thread::spawn(move || {
        attended.put(Message::Panic);
        attended.attend();
    });
    assert!(panicked.join().is_err());
    shop.attended.send(number(0));
    shop.thread.join().unwrap();
    assert!(shop.seen.try_recv().is_err());
}
