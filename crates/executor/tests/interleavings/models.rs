//! Primitives that a checker controls, built from its atomics. They order no more than the shipped
//! ones do.

/// Implements [`zoarium_executor::Primitives`] with a checker's types, which have the names of the standard
/// library.
macro_rules! primitives {
    ($name:ident, $checker:ident) => {
        use std::collections::VecDeque;
        use std::ops::{Deref, DerefMut};
        use std::sync::atomic::Ordering;
        use std::time::Duration;

        use $checker::sync::atomic::{AtomicBool, AtomicI64, AtomicIsize, fence};
        use $checker::sync::{Arc, Condvar, Mutex};
        use $checker::thread;
        use zoarium_executor::{Atomic, Lock, Parker, Primitives, Queue};

        #[derive(Debug)]
        pub(crate) enum $name {}

        impl Primitives for $name {
            type Flag = Flag;
            type Number = Number;
            type Lock<T: Send> = TryLock<T>;
            type Queue<T: Send> = CountedQueue<T>;
            type Parker = Token;

            fn fence() {
                fence(Ordering::SeqCst);
            }

            fn yield_now() {
                thread::yield_now();
            }
        }

        pub(crate) struct Flag(AtomicBool);

        impl Atomic<bool> for Flag {
            fn new(value: bool) -> Self {
                Self(AtomicBool::new(value))
            }

            fn load(&self, ordering: Ordering) -> bool {
                self.0.load(ordering)
            }

            fn store(&self, value: bool, ordering: Ordering) {
                self.0.store(value, ordering);
            }
        }

        pub(crate) struct Number(AtomicI64);

        impl Atomic<i64> for Number {
            fn new(value: i64) -> Self {
                Self(AtomicI64::new(value))
            }

            fn load(&self, ordering: Ordering) -> i64 {
                self.0.load(ordering)
            }

            fn store(&self, value: i64, ordering: Ordering) {
                self.0.store(value, ordering);
            }
        }

        /// Like `parking_lot`'s lock: a relaxed read of the state, then an exchange that acquires
        /// it.
        pub(crate) struct TryLock<T> {
            is_held: AtomicBool,
            /// A thread never waits for this lock, because the flag is taken first.
            value: std::sync::Mutex<T>,
        }

        pub(crate) struct Guard<'a, T> {
            is_held: &'a AtomicBool,
            value: Option<std::sync::MutexGuard<'a, T>>,
        }

        impl<T: Send> Lock<T> for TryLock<T> {
            type Guard<'a>
                = Guard<'a, T>
            where
                T: 'a;

            fn new(value: T) -> Self {
                Self {
                    is_held: AtomicBool::new(false),
                    value: std::sync::Mutex::new(value),
                }
            }

            fn lock(&self) -> Guard<'_, T> {
                loop {
                    if let Some(guard) = self.try_lock() {
                        return guard;
                    }
                    thread::yield_now();
                }
            }

            fn try_lock(&self) -> Option<Guard<'_, T>> {
                if self.is_locked() {
                    return None;
                }
                let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
                let taken = self.is_held.compare_exchange(false, true, acquire, relaxed);
                taken.ok().map(|_| Guard {
                    is_held: &self.is_held,
                    value: Some(self.value.try_lock().expect("one thread holds the lock")),
                })
            }

            fn is_locked(&self) -> bool {
                self.is_held.load(Ordering::Relaxed)
            }
        }

        impl<T> Deref for Guard<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                self.value.as_ref().expect("it is held")
            }
        }

        impl<T> DerefMut for Guard<'_, T> {
            fn deref_mut(&mut self) -> &mut T {
                self.value.as_mut().expect("it is held")
            }
        }

        impl<T> Drop for Guard<'_, T> {
            fn drop(&mut self) {
                self.value = None;
                self.is_held.store(false, Ordering::Release);
            }
        }

        /// A queue whose length a thread may see late, as with `crossbeam`'s queue.
        pub(crate) struct CountedQueue<T>(Arc<Counted<T>>);

        struct Counted<T> {
            len: AtomicIsize,
            values: std::sync::Mutex<VecDeque<T>>,
        }

        impl<T> Clone for CountedQueue<T> {
            fn clone(&self) -> Self {
                Self(self.0.clone())
            }
        }

        impl<T: Send> Queue<T> for CountedQueue<T> {
            fn new() -> Self {
                Self(Arc::new(Counted {
                    len: AtomicIsize::new(0),
                    values: std::sync::Mutex::default(),
                }))
            }

            fn push(&self, value: T) {
                self.0.values.lock().unwrap().push_back(value);
                self.0.len.fetch_add(1, Ordering::Release);
            }

            fn pop(&self) -> Option<T> {
                if self.is_empty() {
                    return None;
                }
                let value = self.0.values.lock().unwrap().pop_front()?;
                self.0.len.fetch_sub(1, Ordering::Relaxed);
                Some(value)
            }

            fn is_empty(&self) -> bool {
                self.0.len.load(Ordering::Relaxed) == 0
            }

            fn len(&self) -> usize {
                self.0.values.lock().unwrap().len()
            }
        }

        /// The token of a thread. It cannot be set before the thread is registered.
        pub(crate) struct Token {
            is_registered: AtomicBool,
            is_set: Mutex<bool>,
            set: Condvar,
        }

        impl Parker for Token {
            fn new() -> Self {
                Self {
                    is_registered: AtomicBool::new(false),
                    is_set: Mutex::new(false),
                    set: Condvar::new(),
                }
            }

            fn register(&self) {
                self.is_registered.store(true, Ordering::Release);
            }

            fn park(&self, timeout: Option<Duration>) {
                if timeout.is_some() {
                    // Time passes whenever the checker lets it.
                    return thread::yield_now();
                }
                let mut is_set = self.is_set.lock().unwrap();
                while !*is_set {
                    is_set = self.set.wait(is_set).unwrap();
                }
                *is_set = false;
            }

            fn unpark(&self) {
                if self.is_registered.load(Ordering::Acquire) {
                    *self.is_set.lock().unwrap() = true;
                    self.set.notify_one();
                }
            }
        }
    };
}

pub(crate) use primitives;
