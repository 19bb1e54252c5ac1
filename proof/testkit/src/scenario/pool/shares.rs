//! Objects that several processes hold: shared, joined, left and collected, cut short anywhere.
//!
//! A survivor holds one that the victim joins or leaves, or has left it before; another joins it
//! afterwards, by its offset. What any living process holds is whole, and at last no process holds
//! anything and all memory is free.

use outlive::pool::Offset;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::pool::{Counted, LEN, MARK, OPTIONS};
use crate::scenario::{Death, Place, Scenario, Stop, passes_with};
use crate::world::World;

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Makes an object one that others may join.
    Begin,
    /// Joins.
    Join,
    /// Leaves one that another holds.
    Leave,
    /// Leaves as the last one.
    Last,
    /// Leaves as the last living holder, beside a name of the dead.
    BesideDead,
    /// Makes it its own again.
    Alone,
    /// Sweeps what killed holders left.
    Collect,
}

/// All of them.
pub const ALL: [Share; 7] = [
    Share::Begin,
    Share::Join,
    Share::Leave,
    Share::Last,
    Share::BesideDead,
    Share::Alone,
    Share::Collect,
];

/// Where the victim finds the offset, beside the domain's folder.
const OFFSET: &str = "shared-offset";

impl Share {
    /// Returns whether "other" holds the object when the victim dies.
    fn is_held(self) -> bool {
        matches!(self, Share::Join | Share::Leave | Share::Collect)
    }
}

impl Scenario for Share {
    fn name(&self) -> &'static str {
        match self {
            Share::Begin => "pool-share",
            Share::Join => "pool-join",
            Share::Leave => "pool-leave",
            Share::Last => "pool-leave-last",
            Share::BesideDead => "pool-leave-beside-dead",
            Share::Alone => "pool-alone",
            Share::Collect => "pool-collect-shared",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Share::Begin => "share an object",
            Share::Join => "join an object that another process shares",
            Share::Leave => "leave a shared object that another process holds",
            Share::Last => "leave a shared object as its last holder",
            Share::BesideDead => "leave a shared object whose other holder was killed",
            Share::Alone => "make a shared object one's own again",
            Share::Collect => "sweep a pool some of whose holders were killed",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("other", &format!("pool hold {name} 3"))?;
        let offset = match self {
            Share::Begin => "0".to_owned(),
            Share::BesideDead => world.ask("dying", &format!("pool share {name}"))?,
            _ => world.ask("other", &format!("pool share {name}"))?,
        };
        if *self == Share::Collect {
            // Of the dead process: two objects that no other process holds, and its name in the one
            // that another does.
            let joined = world.ask("dying", &format!("pool join {name} {offset}"))?;
            if joined != "whole" {
                return Err(Failure::broken(format!("joined: {joined}")));
            }
            for _ in 0..2 {
                world.ask("dying", &format!("pool share {name}"))?;
            }
            world.dismiss("dying");
        }
        let number =
            offset.parse().map_err(|_| Failure::broken(format!("`{offset}` is no offset")))?;
        world.remember(number);
        std::fs::write(world.folder().join(OFFSET), offset)?;
        Ok(())
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            // The victim has joined: it is the last one now.
            Share::Last | Share::Alone => {
                world.ask("other", &format!("pool leave {name}")).map(drop)
            }
            Share::BesideDead => {
                world.dismiss("dying");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let offset = world.remembered();
        if *self == Share::Collect {
            crate::scenario::sweep_after_a_fault(world)?;
        }
        super::use_beside_the_dead(world, &name)?;
        let joined = world.ask("next", &format!("pool join {name} {offset}"))?;
        let gone = joined == "stale";
        // A victim whose `kill(2)` fails cannot tell that the dead holder has ended. It must not
        // free the object then, since a process that has not ended may still use it. The object
        // stays until another process leaves it, or sweeps, as below.
        let may_be_left = *self == Share::BesideDead && world.has_fault();
        let right = match (self.is_held(), death.ended && !may_be_left) {
            (true, _) => joined == "whole",
            // If the victim alone holds it again, the object has died with the victim.
            (false, true) => gone,
            (false, false) => gone || joined == "whole",
        };
        if !right {
            return Err(Failure::wrong(format!("who joined then found it {joined}")));
        }
        world.saw(if gone { "gone" } else { "joined" });
        // Now it is as it was before, but with one holder more.
        let holders = if self.is_held() { 2 } else { 1 };
        let counted = |world: &mut World, shared: u64| -> Result<(), Failure> {
            for survivor in ["other", "next"] {
                world.ask(survivor, &format!("pool flush {name}"))?;
            }
            let counted = Counted::of(&world.ask("other", &format!("pool count {name}"))?)
                .map_err(Failure::broken)?;
            let right = counted.used == 3
                && counted.shared == shared
                && counted.cached + counted.moving == 0;
            if right && counted.adds_up() {
                return Ok(());
            }
            Err(Failure::wrong(format!("three in use and {shared} shared, yet {counted:?}")))
        };
        world.ask("sweeper", "domain sweep")?;
        counted(world, u64::from(!gone))?;
        if !gone {
            let named = world.ask("next", &format!("pool holders {name}"))?;
            if named != holders.to_string() {
                return Err(Failure::wrong(format!("{holders} hold it, {named} are named")));
            }
        }
        for survivor in ["other", "next"] {
            let whole = world.ask(survivor, &format!("pool leave {name}"))?;
            if whole != "whole" {
                return Err(Failure::wrong(format!("{survivor} left: {whole}")));
            }
        }
        // Without another sweep.
        counted(world, 0)?;
        super::all_are_whole(world, &name, &["check", "drop"])?;
        super::all_is_free(world, &name)?;
        super::super::nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if *self == Share::Collect {
            world.passes("passer", "domain sweep")?;
        }
        if *self != Share::Begin {
            // Another joins and leaves, if it is shared still.
            let joined =
                world.passes("next", &format!("pool join {name} {}", world.remembered()))?;
            if joined != "whole" && (self.is_held() || joined != "stale") {
                return Err(Failure::wrong(format!("who joined beside it found it {joined}")));
            }
            passes_with(world, "next", &format!("pool leave {name}"), "whole")?;
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
        // So that its tokens are there.
        domain.process_token().map_err(|error| error.to_string())?;
        let folder = place.domain.parent().ok_or("the domain lies nowhere")?;
        let offset =
            std::fs::read_to_string(folder.join(OFFSET)).map_err(|error| error.to_string())?;
        let offset = Offset::from(offset.parse::<u64>().map_err(|error| error.to_string())?);
        match self {
            Share::Begin => {
                let mut object = pool.alloc(LEN).map_err(text)?;
                object.fill(MARK);
                let shared = stage.perform(|| object.share());
                std::mem::forget(shared.map_err(text)?);
            }
            Share::Join => {
                let joined = stage.perform(|| pool.join(offset));
                std::mem::forget(joined.map_err(text)?);
            }
            Share::Leave | Share::Last | Share::BesideDead => {
                let joined = pool.join(offset).map_err(text)?;
                stage.begin();
                drop(joined);
                stage.end();
            }
            Share::Alone => {
                let joined = pool.join(offset).map_err(text)?;
                let alone = stage.perform(|| match joined.try_into_object() {
                    Ok(alone) => Ok(Some(alone)),
                    // Another was among the holders meanwhile, while this one stood still.
                    Err(_) if stage.is_overtaken() => Ok(None),
                    Err(_) => Err("others hold it"),
                });
                std::mem::forget(alone?);
            }
            Share::Collect => {
                let swept = stage.perform(|| crate::scenario::sweep_all(&domain));
                swept?;
            }
        }
        Ok(())
    }
}
