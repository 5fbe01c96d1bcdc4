//! Each protection taken out: the simulation must find a violation. The tests bear the names of the protocol's model.

use schemas::order::protection::{Protection, Protections};

use crate::{aims, search};

/// How many schedules a test may take. Each finds its violation far earlier.
const BOUND: u64 = 20_000;

fn breaks_without(protection: Protection, aim: &str) {
    let found = search(&aims::named(aim), Protections::ALL.without(protection), BOUND);
    assert!(found.is_some(), "{BOUND} schedules of {aim} found nothing without {protection:?}");
}

macro_rules! sabotage {
    ($($name:ident: $protection:ident in $aim:literal;)*) => {
        $(#[test]
        fn $name() {
            breaks_without(Protection::$protection, $aim);
        })*

        /// Every protection has its test.
        #[test]
        fn no_protection_is_left_out() {
            let tested = [$(Protection::$protection),*];
            let left: Vec<_> = Protection::ALL.into_iter().filter(|p| !tested.contains(p)).collect();
            assert_eq!(left, []);
        }
    };
}

sabotage! {
    cas: CompareAndSet in "crashes";
    position: Position in "random";
    lock: Lock in "random";
    supersede: Supersede in "reload";
    queue: Queue in "drain";
    fence: Fence in "crashes";
    fencefirst: FenceFirst in "crashes";
    stand: Stand in "drain";
    fold: Fold in "reread";
    boundary: Boundary in "random";
    bcommit: BoundaryAfterCommit in "drain";
    heldpass: HeldPasses in "held";
    onetx: EventWithProgress in "order";
    rowtx: RowsWithProgress in "crashes";
    intent: Intent in "crashes";
    shapecheck: ShapeCheck in "drain";
    decided: Decided in "random";
    eof: EmptyEnd in "random";
    keysplit: KeySplit in "reread";
    readcommitted: ReadCommitted in "crashes";
    sink_tx: SinkTransaction in "crashes";
    h1_shape: ReloadShape in "reload";
    h2_order: ColumnOrder in "order";
    h3_move: MoveFirst in "reload";
    h4_chunk: ChunkPassed in "order";
    h5_reread: Reread in "reread";
    h6_view: ViewPosition in "keyless";
    h6_empty: ViewEmpties in "keyless";
    h7_session: LockSession in "order";
    h8_inorder: InOrder in "drain";
    h9_under: SupersedeUnderLock in "reload";
    h10_skip: SkipToPinned in "stand";
    h11_drain: Drain in "drain";
    h12_event: EventEffect in "order";
    h13_view: OneSnapshot in "reload";
    h14_visible: ViewCovers in "order";
    h15_end: ReadToEnd in "order";
}
