//! Search for an order of calls.

use std::collections::HashSet;

use super::{Call, Model, Verdict};

/// Searches for an order of these calls, in at most `steps_max` steps. A step tries one call at one
/// position.
///
/// Two calls are concurrent if the question of one has the same time as the answer of the other.
pub fn check<M: Model>(
    model: &M,
    history: &[Call<M::Question, M::Answer>],
    steps_max: usize,
) -> Verdict {
    let mut events = Events::of(history);
    let mut state = model.start();
    let mut done = CallSet::new(history.len());
    let mut seen: HashSet<(CallSet, M::State)> = HashSet::new();
    let mut order: Vec<(usize, M::State)> = Vec::new();
    let mut longest: Vec<usize> = Vec::new();
    let mut stuck_at = 0;
    let mut steps = 0;
    let mut at = events.first();
    loop {
        match at.map(|at| (at, events.kind_of(at))) {
            // The remaining calls have no answers.
            None => return Verdict::Linearizable(calls_of(&order)),
            Some((at_call, EventKind::Question(call))) => {
                steps += 1;
                if steps > steps_max {
                    return Verdict::Undecided;
                }
                let asked = &history[call];
                let answer = asked.answer.as_ref().map(|(answer, _)| answer);
                let next = model.step(&state, &asked.question, answer);
                let next = next.filter(|next| {
                    done.insert(call);
                    let is_new = seen.insert((done.clone(), next.clone()));
                    if !is_new {
                        done.remove(call);
                    }
                    is_new
                });
                match next {
                    Some(next) => {
                        order.push((call, std::mem::replace(&mut state, next)));
                        events.take_out(at_call);
                        if events.answers_left == 0 {
                            return Verdict::Linearizable(calls_of(&order));
                        }
                        at = events.first();
                    }
                    None => at = events.after(at_call),
                }
            }
            // The call with this answer should already have been chosen, so an earlier choice was
            // wrong.
            Some((_, EventKind::Answer(call))) => {
                if order.len() >= longest.len() {
                    longest = calls_of(&order);
                    stuck_at = call;
                }
                let Some((undone, before)) = order.pop() else {
                    return Verdict::NotLinearizable { longest, stuck_at };
                };
                state = before;
                done.remove(undone);
                at = events.put_back();
            }
        }
    }
}

fn calls_of<S>(order: &[(usize, S)]) -> Vec<usize> {
    order.iter().map(|(call, _)| *call).collect()
}

/// Set of calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CallSet(Vec<u64>);

impl CallSet {
    fn new(calls: usize) -> Self {
        Self(vec![0; calls.div_ceil(64)])
    }

    fn insert(&mut self, call: usize) {
        self.0[call / 64] |= 1 << (call % 64);
    }

    fn remove(&mut self, call: usize) {
        self.0[call / 64] &= !(1 << (call % 64));
    }
}

#[derive(Debug, Clone, Copy)]
enum EventKind {
    Question(usize),
    Answer(usize),
}

/// Questions and answers, ordered by time. Calls can be removed from the list and restored in the
/// reverse order.
#[derive(Debug)]
struct Events {
    kinds: Vec<EventKind>,
    /// Index of the next event for each event, or the number of events for the last event. An
    /// additional entry at the end contains the index of the first event.
    next: Vec<usize>,
    previous: Vec<usize>,
    /// Index of the event of each call's answer. `None` without an answer.
    answers: Vec<Option<usize>>,
    /// Events of the removed questions, in the order of their removal.
    taken: Vec<usize>,
    answers_left: usize,
}

impl Events {
    fn of<Q, A>(history: &[Call<Q, A>]) -> Self {
        // Questions come before answers with the same time.
        let mut order: Vec<(i64, bool, usize)> = Vec::new();
        for (call, asked) in history.iter().enumerate() {
            order.push((asked.asked_at, false, call));
            if let Some((_, at)) = &asked.answer {
                order.push((*at, true, call));
            }
        }
        order.sort_unstable();
        let mut kinds = Vec::with_capacity(order.len());
        let mut answers = vec![None; history.len()];
        for (event, (_, is_answer, call)) in order.into_iter().enumerate() {
            kinds.push(if is_answer {
                EventKind::Answer(call)
            } else {
                EventKind::Question(call)
            });
            if is_answer {
                answers[call] = Some(event);
            }
        }
        let end = kinds.len();
        Self {
            next: (1..=end).chain([0]).collect(),
            previous: [end].into_iter().chain(0..end).collect(),
            taken: Vec::new(),
            answers_left: answers.iter().flatten().count(),
            kinds,
            answers,
        }
    }

    fn end(&self) -> usize {
        self.kinds.len()
    }

    fn kind_of(&self, event: usize) -> EventKind {
        self.kinds[event]
    }

    fn first(&self) -> Option<usize> {
        self.after(self.end())
    }

    fn after(&self, event: usize) -> Option<usize> {
        let next = self.next[event];
        (next != self.end()).then_some(next)
    }

    fn unlink(&mut self, event: usize) {
        let (previous, next) = (self.previous[event], self.next[event]);
        self.next[previous] = next;
        self.previous[next] = previous;
    }

    fn link(&mut self, event: usize) {
        let (previous, next) = (self.previous[event], self.next[event]);
        self.next[previous] = event;
        self.previous[next] = event;
    }

    fn answer_of(&self, question: usize) -> Option<usize> {
        match self.kinds[question] {
            EventKind::Question(call) => self.answers[call],
            EventKind::Answer(_) => None,
        }
    }

    fn take_out(&mut self, question: usize) {
        self.unlink(question);
        if let Some(answer) = self.answer_of(question) {
            self.unlink(answer);
            self.answers_left -= 1;
        }
        self.taken.push(question);
    }

    /// Restores the call that was removed last. Returns the event after its question.
    fn put_back(&mut self) -> Option<usize> {
        let question = self.taken.pop()?;
        if let Some(answer) = self.answer_of(question) {
            self.link(answer);
            self.answers_left += 1;
        }
        self.link(question);
        self.after(question)
    }
}
