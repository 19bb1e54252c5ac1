//! Taking, freeing and handing over in each of a pool's debug modes, cut short anywhere.
//!
//! The survivors go on in the victim's modes: one that takes what the dead left for a fault ends,
//! by SIGABRT.

use outlive::pool::Modes;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::pool::{LEN, MARK, OPTIONS};
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, passes_with};
use crate::world::World;

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Alloc,
    Free,
    Offer,
    Claim,
    Set,
}

/// In which modes it does it.
#[derive(Clone, Copy, Debug)]
pub struct InModes {
    name: &'static str,
    about: &'static str,
    modes: Modes,
    act: Act,
}

const fn one(name: &'static str, about: &'static str, modes: Modes, act: Act) -> InModes {
    InModes { name, about, modes, act }
}

const ALL_TEXT: &str = "tag,integrity,poison,uaf,caller,cold-first";

/// All of them.
pub const ALL: [InModes; 19] = [
    one("pool-mode-tag-alloc", "take an object with a canary behind it", Modes::TAG, Act::Alloc),
    one("pool-mode-tag-free", "free an object with a canary behind it", Modes::TAG, Act::Free),
    one(
        "pool-mode-integrity-alloc",
        "take an object that is compared with its pattern",
        Modes::INTEGRITY,
        Act::Alloc,
    ),
    one("pool-mode-integrity-free", "free an object, which is filled", Modes::INTEGRITY, Act::Free),
    one("pool-mode-poison-alloc", "take an object that is poisoned", Modes::POISON, Act::Alloc),
    one("pool-mode-poison-free", "free an object that was poisoned", Modes::POISON, Act::Free),
    one("pool-mode-uaf-alloc", "take an object that was out of reach", Modes::UAF, Act::Alloc),
    one("pool-mode-uaf-free", "free an object, which is put out of reach", Modes::UAF, Act::Free),
    one("pool-mode-fail-alloc", "be refused an object", Modes::fail(100), Act::Alloc),
    one("pool-mode-fail-free", "free an object while all are refused", Modes::fail(100), Act::Free),
    one(
        "pool-mode-caller-alloc",
        "take an object that says who took it",
        Modes::CALLER,
        Act::Alloc,
    ),
    one("pool-mode-caller-free", "free an object that says who took it", Modes::CALLER, Act::Free),
    one(
        "pool-mode-cold-alloc",
        "take the object that lay longest in the cache",
        Modes::COLD_FIRST,
        Act::Alloc,
    ),
    one(
        "pool-mode-cold-free",
        "free an object while the coldest are taken first",
        Modes::COLD_FIRST,
        Act::Free,
    ),
    one("pool-mode-all-alloc", "take an object in all modes at once", Modes::NONE, Act::Alloc),
    one("pool-mode-all-free", "free an object in all modes at once", Modes::NONE, Act::Free),
    one("pool-mode-all-offer", "hand an object over in all modes at once", Modes::NONE, Act::Offer),
    one("pool-mode-all-claim", "claim an object in all modes at once", Modes::NONE, Act::Claim),
    one("pool-mode-set", "turn all modes on", Modes::NONE, Act::Set),
];

impl InModes {
    fn modes(&self) -> Result<Modes, String> {
        if self.modes.is_none() {
            ALL_TEXT.parse().map_err(|_| "no modes".to_owned())
        } else {
            Ok(self.modes)
        }
    }

    fn refuses(&self) -> bool {
        self.modes.contains(Modes::fail(0))
    }
}

impl Scenario for InModes {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("other", &format!("pool hold {name} 3"))?;
        if self.act == Act::Claim {
            world.ask("other", &format!("pool modes {name} {ALL_TEXT}"))?;
        }
        world.ask("other", &format!("pool offer {name}"))?;
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if self.refuses() {
            world.ask("next", &format!("pool modes {name} none"))?;
        }
        super::use_beside_the_dead(world, &name)?;
        let offered = match (self.act, death.ended) {
            (Act::Offer, true) => 2..=2,
            (Act::Offer, false) => 1..=2,
            (Act::Claim, true) => 0..=0,
            (Act::Claim, false) => 0..=1,
            _ => 1..=1,
        };
        let counted = super::three_are_held(world, &name, offered)?;
        let held = world.ask("next", &format!("pool held {name}"))?;
        if held != (3 + counted.offered).to_string() {
            return Err(Failure::wrong(format!("{counted:?}, yet {held} are listed as held")));
        }
        // A process that turns modes off finds all of it in order as well, and so does one that
        // turns them on.
        for modes in ["none", "integrity,tag"] {
            world.ask("next", &format!("pool modes {name} {modes}"))?;
            world.ask("other", &format!("pool use {name} 20"))?;
        }
        super::all_are_whole(world, &name, &["claim-all", "check", "drop"])?;
        world.ask("next", &format!("pool modes {name} none"))?;
        super::all_is_free(world, &name)?;
        super::super::nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if self.refuses() {
            // All are refused: that is told at once.
            world.passes("next", &format!("pool count {name}"))?;
            passes_with(world, "next", &format!("pool refused {name}"), "refused")?;
            return Ok(HOLDS_NOTHING);
        }
        super::use_beside_the_stopped(world, &name)
    }

    fn has_sleepers(&self) -> bool {
        false
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let text = |error: outlive::pool::PoolError| error.to_string();
        let pool =
            OPTIONS.open_or_create(&domain, place.name).map_err(|error| error.to_string())?;
        let modes = self.modes()?;
        let in_modes = || {
            pool.set_modes(modes);
            pool.alloc(LEN)
        };
        match self.act {
            Act::Alloc => {
                // So that one is there that was freed in the mode; refused, it is what is to be
                // seen.
                drop(in_modes());
                stage.begin();
                let taken = pool.alloc(LEN);
                // Refused by its mode: what it is to do.
                let is_refused =
                    matches!(taken, Err(outlive::pool::PoolError::NoSpace { injected: true, .. }));
                if is_refused {
                    stage.end();
                } else {
                    stage.end_of(&taken);
                }
                if is_refused != self.refuses() {
                    return Err(format!("refused: {is_refused}"));
                }
                std::mem::forget(taken);
            }
            Act::Free => {
                let object = if self.refuses() {
                    let object = pool.alloc(LEN);
                    pool.set_modes(modes);
                    object
                } else {
                    in_modes()
                };
                let mut object = object.map_err(text)?;
                object.fill(MARK);
                let freed = stage.perform(|| object.free());
                freed.map_err(text)?;
            }
            Act::Offer => {
                let mut object = in_modes().map_err(text)?;
                object.fill(MARK);
                let offset = stage.perform(|| object.into_offset());
                offset.map_err(text)?;
            }
            Act::Claim => {
                domain.process_token().map_err(|error| error.to_string())?;
                let offers = pool.offers().map_err(|error| error.to_string())?;
                let offset = offers.first().ok_or("nothing is offered")?.offset;
                let taken = stage.perform(|| pool.claim(offset));
                std::mem::forget(taken.map_err(text)?);
            }
            Act::Set => {
                drop(pool.alloc(LEN));
                stage.begin();
                pool.set_modes(modes);
                stage.end();
            }
        }
        Ok(())
    }
}
