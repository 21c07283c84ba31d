//! Reports of the programs of contenders, and what they mean for the invariants.

use simulation::world::BEGIN_MS;

use super::programs::ProgramEvent;
use super::{Contenders, name_of};
use crate::invariants::recipes::{self, Grant, Moment};
use crate::simulated::World;

impl Contenders {
    /// Records a report, and checks it.
    pub(super) fn hear(&mut self, number: usize, told: ProgramEvent, world: &mut World) {
        let Some(contender) = self.all.get_mut(number) else {
            return;
        };
        world.say(name_of(number), || format!("{told:?}"));
        let recipe = contender.recipe;
        let now = Moment {
            zxid: world.checks.history.end(),
            wall_ms: BEGIN_MS + world.now_ms(),
        };
        let history = &world.checks.history;
        if matches!(
            told,
            ProgramEvent::Granted { .. }
                | ProgramEvent::Put(_)
                | ProgramEvent::Taken(_)
                | ProgramEvent::Done
        ) {
            contender.done += 1;
            for (_, done) in self.done.iter_mut().filter(|(of, _)| *of == recipe) {
                *done += 1;
            }
        }
        let held = match told {
            ProgramEvent::Waits => {
                contender.is_waiting = true;
                Ok(())
            }
            ProgramEvent::WaitsNoMore => {
                contender.is_waiting = false;
                Ok(())
            }
            ProgramEvent::Granted { path, token } => {
                contender.is_waiting = false;
                let grant = Grant {
                    recipe,
                    path,
                    token,
                };
                self.judged.granted(number, grant, history)
            }
            ProgramEvent::Yielded => {
                self.judged.yielded(number);
                Ok(())
            }
            ProgramEvent::Put(item) => {
                self.judged.put(item, recipe);
                Ok(())
            }
            ProgramEvent::Taken(item) => {
                self.judged.taken(item);
                Ok(())
            }
            ProgramEvent::Confirmed(item) => self.judged.confirmed(item),
            ProgramEvent::Begins => {
                contender.since = now;
                Ok(())
            }
            ProgramEvent::Seen(seen) => self.judged.seen(&seen, contender.since, now, history),
            ProgramEvent::Incremented => {
                self.judged.incremented();
                Ok(())
            }
            ProgramEvent::Unknown => {
                self.judged.unknown(recipe);
                Ok(())
            }
            ProgramEvent::Leased(lease) => self.judged.leased(number, lease),
            ProgramEvent::Wrong(text) => Err(format!("contender {number}: {text}")),
            ProgramEvent::Done => Ok(()),
            ProgramEvent::Over => {
                contender.is_over = true;
                Ok(())
            }
        };
        world.checks.hold(recipes::NAME, held);
    }
}
