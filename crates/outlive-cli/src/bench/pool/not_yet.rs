//! In place of the pool's own rows while there is no pool.

use super::Field;

/// Adds nothing.
pub(super) fn add(_: &mut Field) {}
