//! Watch fan-out: one session sets a znode that all the others watch.
//!
//! Each watcher leaves a standard watch, gets the event, and reads again with a new watch, as
//! configuration followers do. The next change waits until everybody watches again. What is
//! measured is the time from the write's departure to each arrival of its event.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use client::frame::split_reply;
use client::{LossReason, RawConnection};
use proto::Xid;
use tokio::sync::Notify;

use super::control::{Control, Phase};
use super::session::{Context, Report, farewell};
use super::template::{Template, numbered};
use super::workload::{KEY_DIGITS, key_prefix};

/// What watchers and writer share.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Watchers that are still there.
    watchers: AtomicU32,
    /// Of them, those that watch.
    armed: AtomicU32,
    all_armed: Notify,
    /// When the last change was sent.
    sent_ns: AtomicU64,
}

impl Watched {
    pub(crate) fn by(watchers: u32) -> Self {
        Self {
            watchers: AtomicU32::new(watchers),
            armed: AtomicU32::new(0),
            all_armed: Notify::new(),
            sent_ns: AtomicU64::new(0),
        }
    }

    fn arm(&self) {
        self.armed.fetch_add(1, Ordering::SeqCst);
        self.all_armed.notify_one();
    }

    fn leave(&self) {
        self.watchers.fetch_sub(1, Ordering::SeqCst);
        self.all_armed.notify_one();
    }

    /// Waits until all watch, and counts anew.
    async fn take_all_armed(&self) {
        while self.armed.load(Ordering::SeqCst) < self.watchers.load(Ordering::SeqCst) {
            self.all_armed.notified().await;
        }
        self.armed.store(0, Ordering::SeqCst);
    }
}

fn watched_path(context: &Context) -> String {
    numbered(&key_prefix(&context.plan.root), KEY_DIGITS, 0)
}

/// Watches until the measurement is over.
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
        Ok(()) => farewell(&mut connection).await,
        Err(reason) => context.lose(session, &reason, 1),
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
    read.put(xid, connection.wire.outbound(), || 0);
    loop {
        connection.wire.turn().await?;
        let mut must_read = false;
        while let Some(frame) = connection.wire.next_frame()? {
            let (header, _) = split_reply(frame)?;
            match header.xid {
                Xid::EVENT => {
                    must_read = true;
                    note_event(context, watched);
                }
                _ if header.err != 0 => context.stats.borrow_mut().refuse(header.err),
                _ => watched.arm(),
            }
        }
        if must_read && !control.is_stopping() {
            read.put(xid, connection.wire.outbound(), || 0);
        }
    }
}

fn note_event(context: &Context, watched: &Watched) {
    let control = &context.control;
    control.add_answers(1);
    if control.is_measuring() {
        let sent_ns = watched.sent_ns.load(Ordering::SeqCst);
        let latency_ns = control.now_ns().saturating_sub(sent_ns);
        context.stats.borrow_mut().record(latency_ns, 1);
    }
}

/// Sets the znode again and again until the measurement is over.
pub(crate) async fn write(context: &Context, watched: &Watched, mut connection: RawConnection) {
    let end = tokio::select! {
        end = change(context, watched, &mut connection) => end,
        () = context.control.reached(Phase::Stopping) => Ok(()),
    };
    context.report(Report::Finished);
    match end {
        Ok(()) => farewell(&mut connection).await,
        Err(reason) => context.lose(context.plan.sessions, &reason, 1),
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
        watched.sent_ns.store(control.now_ns(), Ordering::SeqCst);
        set.put(Xid(1), connection.wire.outbound(), || 0);
        loop {
            connection.wire.turn().await?;
            if let Some(frame) = connection.wire.next_frame()? {
                let (header, _) = split_reply(frame)?;
                if header.err != 0 {
                    context.stats.borrow_mut().refuse(header.err);
                }
                break;
            }
        }
    }
}
