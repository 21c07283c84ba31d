//! What `zoarium log` and `zoarium snapshot` do, without the command line.
