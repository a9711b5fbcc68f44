//! What the checker can find.

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A preparation that no arrival of this step asked for.
    UnaskedPreparation,
    /// A preparation for a task that the frame is neither of nor may spill to.
    WrongTaker,
    /// A buffer given to a second request while the first holds it.
    BufferInUse,
    /// A buffer that does not exist.
    NoSuchBuffer,
    /// A name that was used before.
    StaleName,
    /// More requests of a task inside than its queue allows.
    QueueBound,
    /// Weights moved, although all are resident.
    Paging,
    /// An action on a partition that runs another.
    PartitionBusy,
    /// A member that is not there, not prepared, or in another action.
    MemberNotReady,
    /// A member of another model, partition or criticality, or a stage out of turn.
    WrongStage,
    /// A batch size that is not compiled, does not hold the members, or is larger than needed or
    /// than a member's task allows.
    WrongBatch,
    /// A window that ends before it begins or begins elsewhere than now.
    WrongWindow,
    /// Told to stop: an action that is not running, not best-effort, or already told.
    WrongPreemption,
    /// A verdict for a submission that is not open.
    UnknownSubmission,
    /// A verdict while the intake or a device touches the buffer.
    BufferTouched,
    /// A verdict that does not fit what happened.
    WrongVerdict,
    /// An answer other than the deepest one reached.
    WrongAnswer,
    /// Promised work is ready and the partition idles.
    IdleWhilePromised,
    /// Promised work is ready and best-effort work was not told to stop.
    BestEffortInTheWay,
    /// Best-effort work runs on or waits although it was to be given up.
    BestEffortWhileShed,
    /// A model is demoted twice, or reinstated without having been demoted.
    WrongDemotion,
    /// An accepted request whose mandatory part was not answered on time.
    Missed,
    /// A submission that has no verdict at the end.
    Lost,
}
