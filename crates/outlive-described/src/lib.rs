//! What the messages of topics are in MCAP files, for all that writes such files or reads them.
//!
//! | module | |
//! | --- | --- |
//! | [`form`] | a topic as a channel of a file: schema, encoding, metadata; and back |
//! | [`cdr`] | described values as CDR with a schema in `ros2msg`, which ROS 2's readers know; and back |
//! | [`mod@array`] | type and extents of arrays that Python publishes |

pub mod array;
pub mod cdr;
pub mod form;
