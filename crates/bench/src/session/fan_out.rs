//! Watch fan-out: one session sets znodes that all other sessions watch.
//!
//! Each watcher sets a standard watch on each znode, receives the event, and reads the znode again
//! with a new watch, as clients of configuration data do. The next change of all znodes waits until
//! all watchers watch all znodes again. The measured time is from the sending of a write to the
//! arrival of its event at each watcher.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use client::frame::split_reply;
use client::{LossReason, RawConnection};
use proto::Xid;
use tokio::sync::Notify;

use crate::session::control::{Control, Phase};
use crate::session::template::{Template, path_with_digits};
use crate::session::workload::{KEY_DIGITS, key_prefix};
use crate::session::{Context, Report, close_session};

/// Maximum number of pending writes.
const WRITES: u64 = 256;

/// State that watchers and the writer share.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Number of watchers that remain.
    watchers: AtomicU32,
    /// Number of armed watches, over all watchers.
    armed: AtomicU64,
    all_armed: Notify,
    /// Time at which the last change of each znode was sent, in ns since the beginning of the
    /// round.
    sent_ns: Vec<AtomicU64>,
}

impl Watched {
    pub(crate) fn by(watchers: u32, znodes: u32) -> Self {
        Self {
            watchers: AtomicU32::new(watchers),
            armed: AtomicU64::new(0),
            all_armed: Notify::new(),
            sent_ns: (0..znodes.max(1)).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn znodes(&self) -> u64 {
        self.sent_ns.len() as u64
    }

    fn sent(&self, znode: u64) -> Option<&AtomicU64> {
        self.sent_ns.get(usize::try_from(znode).ok()?)
    }

    fn arm(&self) {
        let armed = self.armed.fetch_add(1, Ordering::SeqCst) + 1;
        if armed >= self.all() {
            self.all_armed.notify_one();
        }
    }

    fn all(&self) -> u64 {
        u64::from(self.watchers.load(Ordering::SeqCst)) * self.znodes()
    }

    fn leave(&self) {
        self.watchers.fetch_sub(1, Ordering::SeqCst);
        self.all_armed.notify_one();
    }

    /// Waits until all watches are armed, and resets their count.
    async fn take_all_armed(&self) {
        while self.armed.load(Ordering::SeqCst) < self.all() {
            self.all_armed.notified().await;
        }
        self.armed.store(0, Ordering::SeqCst);
    }
}

fn watched_path(context: &Context) -> String {
    path_with_digits(&key_prefix(&context.plan.root), KEY_DIGITS)
}

/// Returns the index of an event's znode. The index is at the end of the path, which is the end of
/// the record.
fn znode_of(event: &[u8]) -> Option<u64> {
    let digits: &[u8; KEY_DIGITS] = event.last_chunk()?;
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Watches until the measurement ends.
pub(crate) async fn watch(
    context: &Context,
    session: u32,
    watched: &Watched,
    mut connection: RawConnection,
) {
    let end = tokio::select! {
        end = follow(context, watched, &mut connection) => end,
        () = context.control.reached(Phase::Stopping) => Ok(()),
    };
    watched.leave();
    match end {
        Ok(()) => close_session(&mut connection).await,
        Err(reason) => context.note_lost(session, &reason, 1),
    }
}

async fn follow(
    context: &Context,
    watched: &Watched,
    connection: &mut RawConnection,
) -> Result<(), LossReason> {
    let control = &context.control;
    let read = Template::get_data(&watched_path(context), true);
    let xid = Xid(1);
    for znode in 0..watched.znodes() {
        read.put(xid, connection.wire.outbound(), || znode);
    }
    let mut changed = Vec::new();
    loop {
        connection.wire.turn().await?;
        while let Some(frame) = connection.wire.next_frame()? {
            let (header, record) = split_reply(frame)?;
            match header.xid {
                Xid::EVENT => {
                    let znode = znode_of(record).unwrap_or(0);
                    changed.push(znode);
                    note_event(context, watched, znode);
                }
                _ if header.err != 0 => context.stats.borrow_mut().refuse(header.err),
                _ => watched.arm(),
            }
        }
        for znode in changed.drain(..) {
            if !control.is_stopping() {
                read.put(xid, connection.wire.outbound(), || znode);
            }
        }
    }
}

fn note_event(context: &Context, watched: &Watched, znode: u64) {
    let control = &context.control;
    control.add_answers(1);
    if control.is_measuring() {
        let sent_ns = watched.sent(znode);
        let sent_ns = sent_ns.map_or(0, |sent_ns| sent_ns.load(Ordering::SeqCst));
        let latency_ns = control.now_ns().saturating_sub(sent_ns);
        context.stats.borrow_mut().record(latency_ns, 1);
    }
}

/// Sets the znodes repeatedly until the measurement ends.
pub(crate) async fn write(context: &Context, watched: &Watched, mut connection: RawConnection) {
    let end = tokio::select! {
        end = change(context, watched, &mut connection) => end,
        () = context.control.reached(Phase::Stopping) => Ok(()),
    };
    context.report(Report::Finished);
    match end {
        Ok(()) => close_session(&mut connection).await,
        Err(reason) => context.note_lost(context.plan.sessions, &reason, 1),
    }
}

async fn change(
    context: &Context,
    watched: &Watched,
    connection: &mut RawConnection,
) -> Result<(), LossReason> {
    let control: &Control = &context.control;
    let set = Template::set_data(&watched_path(context), &context.plan.payload);
    control.reached(Phase::Warmup).await;
    loop {
        watched.take_all_armed().await;
        if control.is_measuring() && control.grant(1) == 0 {
            return Ok(());
        }
        let (mut sent, mut answered) = (0, 0);
        while answered < watched.znodes() {
            while sent < watched.znodes() && sent < answered + WRITES {
                if let Some(sent_ns) = watched.sent(sent) {
                    sent_ns.store(control.now_ns(), Ordering::SeqCst);
                }
                set.put(Xid(1), connection.wire.outbound(), || sent);
                sent += 1;
            }
            connection.wire.turn().await?;
            while let Some(frame) = connection.wire.next_frame()? {
                let (header, _) = split_reply(frame)?;
                if header.err != 0 {
                    context.stats.borrow_mut().refuse(header.err);
                }
                answered += 1;
            }
        }
    }
}
