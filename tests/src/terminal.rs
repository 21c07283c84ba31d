//! Terminals, for programs whose behaviour depends on them.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Opens a terminal. Returns the user's end, and a function that opens the program's end.
pub fn terminal_pair() -> (File, impl Fn() -> File) {
    let pty: OwnedFd =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&pty)
        .and_then(|()| unlockpt(&pty))
        .expect("a terminal");
    let name = ptsname(&pty, Vec::new()).expect("a terminal has a name");
    let name = OsString::from_vec(name.into_bytes());
    let open = move || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(&name)
            .expect("open it")
    };
    (File::from(pty), open)
}
