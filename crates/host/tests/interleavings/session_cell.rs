//! The session of a connection, which threads read without a lock.

use proto::SessionId;
use zoarium_host::SessionCell;

use crate::models::primitives;

primitives!(Loom, loom);

const SESSION: SessionId = SessionId(7);
const TIMEOUT_MS: i32 = 4000;

#[test]
fn loom_finds_no_session_without_its_timeout() {
    loom::model(|| {
        let cell = Arc::new(SessionCell::<Loom>::default());
        let core = cell.clone();
        let core = thread::spawn(move || core.set(SESSION, TIMEOUT_MS));
        if cell.session() == SESSION {
            assert_eq!(cell.timeout_ms(), TIMEOUT_MS);
        }
        core.join().unwrap();
        assert_eq!(cell.session(), SESSION);
    });
}
