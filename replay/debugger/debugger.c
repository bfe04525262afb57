/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See debugger.h.  A move ("way" in identifiers) consists of legs.  In a leg all vCPUs run in
 * parallel up to a moment's vector of positions, and stop there.  Then the main thread begins the
 * next leg, or ends the move.  There are three kinds of moves:
 *
 *   TO        Go to a moment.  The last legs get shorter and shorter, with a snapshot after each,
 *             so that going back a little from there is cheap.
 *   FORWARD   Run a window at a time and note hits of breakpoints and watchpoints.  If there are
 *             hits, go TO the first.
 *   BACKWARD  Go to the previous snapshot, and run from there to where the debugger was, noting
 *             hits.  If there are hits, go TO the last.  Else do the same from the snapshot before.
 *
 * From the start of a move to its end QEMU's run state is "running".  If the machine is stopped
 * meanwhile, the move ends at plan.safe: a moment between which and the start of the move there is
 * no hit.  So a user who continues from there in the same direction misses none.
 *
 * Main thread with the BQL held, all vCPUs paused, unless a comment says otherwise.
 */
#include "qemu/osdep.h"
#include "exec/breakpoint.h"
#include "exec/gdbstub.h"
#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "system/cpus.h"
#include "system/runstate.h"

#include "hw/recorder/recorder.h"
#include "hw/recorder/vcpu.h"
#include "recording/position.h"
#include "recording/total-order.h"
#include "replay/debugger/debugger-internal.h"
#include "replay/debugger/snapshots.h"
#include "replay/player.h"

/* Steps of all vCPUs together. */
#define SHORT_LEG 1000000u
#define LONG_LEG (256 * SHORT_LEG)
/* TO: by how much each of the last legs divides the distance that is left. */
#define LEG_FACTOR 4
/* FORWARD: the first window.  The next hit is often near, so windows start small, and double. */
#define FIRST_WINDOW (SHORT_LEG / 16)
/* How many instructions gdb 13 searches for the end of a load-exclusive sequence. */
#define EXCLUSIVES 16
/* How far from the last snapshot the debugger must be to take another, in steps. */
#define SNAPSHOT_DISTANCE (SHORT_LEG / 4)

Debugger debugger;

/* --- legs -------------------------------------------------------------------------- */

/* Set the current moment to that of @order, and take @order over. */
static void stand_at(TotalOrder *order)
{
    total_order_free(debugger.order);
    debugger.order = order;
    debugger.now = total_order_moment(order);
}

/* Restore @snapshot. */
static void go_to_snapshot(const Snapshot *snapshot)
{
    snapshots_go(snapshot);
    stand_at(total_order_copy(snapshot_order(snapshot)));
}

/* Return the moment of the last snapshot that is not after now. */
static uint64_t last_snapshot(void)
{
    return snapshot_moment(snapshots_at(debugger.now));
}

/* Take a snapshot now if the last one is @distance steps or more before. */
static void keep_snapshot(uint64_t distance)
{
    if (debugger.now - last_snapshot() >= distance) {
        snapshots_take(debugger.order);
    }
}

/* Set where the move ends if it is interrupted: @moment, whose snapshot is kept. */
static void be_safe_at(uint64_t moment)
{
    debugger.plan.safe = moment;
    snapshots_hold(moment);
}

/* Prepare a leg to @moment, which is not before now.  It begins when the vCPUs are resumed. */
static void begin_leg(uint64_t moment)
{
    unsigned n = debugger.manifest->n_vcpus;
    g_autofree Position *cut = g_new(Position, n + 1);
    g_autoptr(GError) error = NULL;

    if (!total_order_follow(debugger.order, moment, &error) && error) {
        /* Unexpected: the logs were verified when the recording was opened. */
        error_report("%s", error->message);
    }
    for (unsigned i = 0; i <= n; i++) {
        cut[i] = total_order_reached(debugger.order, i);
    }
    qatomic_set(&debugger.arrived, false);
    player_go_on(cut);
}

/* Tell the main thread that the leg has ended (PlayerOptions.arrived).  Any thread. */
static void arrived(void)
{
    qatomic_set(&debugger.arrived, true);
    qemu_sem_post(&debugger.event);
    qemu_bh_schedule(debugger.bh);
}

/* --- checkpoints of the recording ----------------------------------------------------- */

bool debugger_begin_at(unsigned checkpoint, Error **errp)
{
    g_autoptr(GError) error = NULL;
    PlayerOptions options = {
        .has_from = true, .from = checkpoint, .order = debugger.order_name, .arrived = arrived,
    };
    TotalOrder *order = total_order_open(debugger.directory, debugger.manifest, checkpoint, &error);

    if (!order) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    if (recorder_replaying()) {
        player_leave();
    }
    if (!player_start(debugger.directory, &options, errp)) {
        total_order_free(order);
        return false;
    }
    debugger.checkpoint = checkpoint;
    stand_at(order);
    snapshots_begin(order, debugger.snapshot_bytes);
    return true;
}

/* Keep @failure, and report it.  Takes @failure over. */
static void report_failure(Error *failure)
{
    error_free(debugger.failure);
    debugger.failure = failure;
    error_report("%s", error_get_pretty(failure));
}

/*
 * Restart the replay at the last checkpoint that is not after @moment.  If that fails, set
 * debugger.failure and return false.  Then the debugger is where it was, or, if its replay had to
 * be left already, at the checkpoint where that replay began.
 */
static bool begin_before(uint64_t moment)
{
    unsigned former = debugger.checkpoint;
    unsigned checkpoint = total_order_checkpoint(debugger.directory, debugger.manifest, moment);
    Error *failure = NULL;

    if (debugger_begin_at(checkpoint, &failure)) {
        return true;
    }
    error_prepend(&failure, "cannot go back to moment %" PRIu64 ": ", moment);
    report_failure(failure);
    failure = NULL;
    if (!recorder_replaying() && !debugger_begin_at(former, &failure)) {
        /* The machine has the memory of no moment, so there is nothing left to debug. */
        error_reportf_err(failure, "cannot return to checkpoint %u either: ", former);
        exit(EXIT_FAILURE);
    }
    return false;
}

/*
 * Return the last snapshot that is not after @moment.  If there is none, restart the replay at an
 * earlier checkpoint, which drops all other snapshots.  Return NULL if the restart fails.
 */
static const Snapshot *snapshot_for(uint64_t moment)
{
    const Snapshot *snapshot = snapshots_at(moment);

    return snapshot || !begin_before(moment) ? snapshot : snapshots_at(moment);
}

/* --- hits -------------------------------------------------------------------------- */

/*
 * Set *@moment to where @hit of @vcpu stops the debugger.  Return false if the order of all steps
 * does not have it.
 *
 * A breakpoint stops before its instruction.  A watchpoint stops where the CPUs of the architecture
 * stop.  On Arm that is before the access: gdb makes the step itself, in either direction, and
 * compares the value.  On x86 it is after the access: gdb compares the value at once, so the access
 * is made, or backwards undone.
 */
static bool moment_of(unsigned vcpu, const Hit *hit, bool backwards, uint64_t *moment)
{
    g_autoptr(TotalOrder) order = total_order_copy(debugger.plan.scanned);

    if (!total_order_find(order, vcpu, hit->position, moment, NULL)) {
        return false;
    }
    *moment += hit->is_watchpoint && backwards != hits_stop_after_access();
    return true;
}

/*
 * Make the first noted hit, or backwards the last, the target of the move.  Return false if there
 * is no hit on the way to the present target.
 */
static bool choose_hit(void)
{
    Plan *plan = &debugger.plan;
    uint64_t best = plan->target;
    bool any = false;
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        const Hit *hit = hits_of(cpu->cpu_index);
        uint64_t moment;

        if (!hit || (debugger.alone && cpu != debugger.alone) ||
            !moment_of(cpu->cpu_index, hit, plan->backwards, &moment)) {
            continue;
        }
        if (plan->backwards ? moment >= best : moment <= best) {
            bool is_first = hit->is_watchpoint == hits_stop_after_access();
            bool is_access = is_first && hit->is_watchpoint;

            /* Of two hits, the other is met after this one.  A step ends there anyway. */
            if (moment == best && (any ? !is_first : plan->reason == STOP_STEPPED && !is_access)) {
                continue;
            }
            best = moment;
            any = true;
            plan->hit = *hit;
            plan->cpu = cpu;
        }
    }
    if (any) {
        plan->target = best;
        plan->reason = STOP_HIT;
    }
    return any;
}

/* Note hits from now on. */
static void note_hits(HitsKept which)
{
    Plan *plan = &debugger.plan;

    hits_keep(which, debugger.manifest->n_vcpus);
    total_order_free(plan->scanned);
    plan->scanned = total_order_copy(debugger.order);
}

/* --- the next leg ------------------------------------------------------------------- */

/* End the move here, since the replay cannot be restarted where the move leads. */
static void stay_here(void)
{
    Plan *plan = &debugger.plan;

    plan->going = TO;
    plan->target = debugger.now;
    plan->reason = STOP_THERE;
    hits_keep(HITS_NONE, debugger.manifest->n_vcpus);
}

/*
 * Continue the move as TO @moment.  Jump to a snapshot if @moment lies before now, or if a snapshot
 * between now and @moment saves replay, unless all steps are to be replayed.
 */
static void go_to(uint64_t moment)
{
    Plan *plan = &debugger.plan;
    const Snapshot *snapshot = snapshot_for(moment);

    if (!snapshot) {
        stay_here();
        return;
    }
    plan->going = TO;
    plan->target = moment;
    hits_keep(HITS_NONE, debugger.manifest->n_vcpus);
    if (moment < debugger.now ||
        (snapshot_moment(snapshot) > debugger.now && !plan->on_foot)) {
        go_to_snapshot(snapshot);
    }
}

/*
 * Return where the next leg to @target ends.  The last legs end SHORT_LEG times a power of
 * LEG_FACTOR before @target, the last but one SHORT_LEG before it.
 */
static uint64_t next_stop(uint64_t target)
{
    uint64_t left = target - debugger.now, rest = 0;

    for (uint64_t leg = SHORT_LEG; leg < left; leg *= LEG_FACTOR) {
        rest = leg;
    }
    return debugger.now + MIN(left - rest, LONG_LEG);
}

/*
 * BACKWARD: go to the last snapshot before @high, and note hits from there to @high.  If there is
 * no way to get there, end the move here.
 */
static void scan_before(uint64_t high)
{
    const Snapshot *snapshot = snapshot_for(high - 1);

    if (!snapshot) {
        stay_here();
        return;
    }
    debugger.plan.high = high;
    go_to_snapshot(snapshot);
    note_hits(HITS_LAST);
}

/* Prepare the next leg.  Return false if the move has reached its target. */
static bool next_leg(void)
{
    Plan *plan = &debugger.plan;

    switch (plan->going) {
    case TO:
        if (debugger.now == plan->target) {
            return false;
        }
        keep_snapshot(SNAPSHOT_DISTANCE);
        begin_leg(next_stop(plan->target));
        return true;
    case FORWARD:
        if (choose_hit()) {
            go_to(plan->target);
            return next_leg();
        }
        if (debugger.now == plan->target) {
            return false;
        }
        keep_snapshot(SNAPSHOT_DISTANCE);
        be_safe_at(last_snapshot());
        begin_leg(MIN(debugger.now + plan->window, plan->target));
        plan->window = MIN(plan->window * 2, LONG_LEG / 2);
        return true;
    case BACKWARD:
        while (debugger.now == plan->high) {
            uint64_t low = total_order_moment(plan->scanned);

            if (choose_hit() || low <= plan->target) {
                go_to(plan->target);
                return next_leg();
            }
            be_safe_at(low);
            scan_before(low);
            if (plan->going != BACKWARD) {
                return next_leg();
            }
        }
        keep_snapshot(SNAPSHOT_DISTANCE);
        begin_leg(MIN(debugger.now + LONG_LEG / 4, plan->high));
        return true;
    default:
        return false;
    }
}

/* --- steps -------------------------------------------------------------------------- */

/* Return true if a step of this kind changes nothing that the debugger user can see. */
static bool is_silent(LogEventKind step)
{
    return step == LOG_EVENT_WAKE || step == LOG_EVENT_STEP || step == LOG_EVENT_ACCESS_FLAG;
}

/*
 * Return the order of all steps at some moment at which @vcpu has made at most @position steps, or
 * NULL if there is none.  The caller frees it.  The machine does not move.
 */
static TotalOrder *order_before(unsigned vcpu, Position position)
{
    const Snapshot *snapshot = snapshots_of(vcpu, position);

    if (snapshot) {
        return total_order_copy(snapshot_order(snapshot));
    }
    for (unsigned i = debugger.checkpoint; i-- > 0; ) {
        g_autoptr(TotalOrder) order = total_order_open(debugger.directory, debugger.manifest, i,
                                                       NULL);

        if (order && total_order_reached(order, vcpu) <= position) {
            return g_steal_pointer(&order);
        }
    }
    return NULL;
}

/* Set *@moment to that before step @position of @vcpu, in the past.  Return false if not found. */
static bool find_step(unsigned vcpu, Position position, uint64_t *moment)
{
    g_autoptr(TotalOrder) order = order_before(vcpu, position);

    return order && total_order_find(order, vcpu, position, moment, NULL);
}

/* Plan a move back to before step @position of the stepped vCPU, or to the first moment. */
static void plan_back_to(Position position)
{
    Plan *plan = &debugger.plan;

    plan->going = BACKWARD;
    plan->reason = STOP_STEPPED;
    if (position == UINT64_MAX || !find_step(plan->cpu->cpu_index, position, &plan->target)) {
        plan->reason = STOP_BEGIN;
        plan->target = debugger.first;
    }
}

/* Plan one step of plan.cpu. */
static void plan_next_step(void)
{
    Plan *plan = &debugger.plan;
    g_autoptr(TotalOrder) order = total_order_copy(debugger.order);

    plan->from = recorder_position(plan->cpu);
    if (plan->backwards) {
        plan_back_to(plan->from - 1);
        return;
    }
    plan->going = FORWARD;
    plan->reason = STOP_STEPPED;
    plan->is_silent = is_silent(player_next_step(plan->cpu));
    if (total_order_find(order, plan->cpu->cpu_index, plan->from, &plan->target, NULL)) {
        plan->target++;
    } else {
        plan->reason = STOP_END;
        plan->target = debugger.last;
    }
}

void debugger_plan_step(CPUState *cpu, bool backwards)
{
    debugger.plan.cpu = cpu;
    debugger.plan.backwards = backwards;
    plan_next_step();
}

/* Return true if hits of other vCPUs are ignored, mostly since gdb steps over a breakpoint. */
static bool goes_alone(void)
{
    return debugger.alone && debugger.manifest->n_vcpus > 1;
}

/*
 * Plan how gdb steps a thread over a sequence from load-exclusive to store-exclusive.  Return false
 * if this is no such case: gdb has no breakpoint close behind, or the recording ends before.
 *
 * gdb sets a breakpoint behind the store-exclusive and continues this thread alone.  gdb takes a
 * load-acquire for a load-exclusive, too.  Then the thread may never reach the breakpoint, and the
 * move would go to the end of the recording, past all hits of other vCPUs.  So the move ends after
 * EXCLUSIVES steps at most.
 */
static bool plan_exclusives(void)
{
    Plan *plan = &debugger.plan;
    CPUState *cpu = debugger.alone;
    vaddr pc = cpu->cc->get_pc(cpu);
    g_autoptr(TotalOrder) order = total_order_copy(debugger.order);
    CPUBreakpoint *bp;
    bool found = false;

    QTAILQ_FOREACH(bp, &cpu->breakpoints, entry) {
        found |= bp->flags & BP_GDB && (bp->pc - pc) / 4 - 1 < EXCLUSIVES;
    }
    if (!found || !total_order_find(order, cpu->cpu_index, recorder_position(cpu) + EXCLUSIVES,
                                    &plan->target, NULL)) {
        return false;
    }
    plan->cpu = cpu;
    plan->backwards = plan->is_silent = false;
    plan->going = FORWARD;
    plan->reason = STOP_STEPPED;
    return true;
}

void debugger_plan_continue(bool backwards)
{
    Plan *plan = &debugger.plan;

    if (!backwards && goes_alone() && plan_exclusives()) {
        return;
    }
    plan->cpu = debugger.shown.cpu ?: first_cpu;
    plan->backwards = backwards;
    plan->going = backwards ? BACKWARD : FORWARD;
    plan->reason = backwards ? STOP_BEGIN : STOP_END;
    plan->target = backwards ? debugger.first : debugger.last;
}

/*
 * Called when the move has reached its target.  If it was a step that has to go further, plan that
 * and return true.
 */
static bool step_again(void)
{
    Plan *plan = &debugger.plan;

    if (plan->reason != STOP_STEPPED) {
        return false;
    }
    if (plan->backwards) {
        Position position = recorder_position(plan->cpu);
        Position behind = total_order_reached(debugger.order, plan->cpu->cpu_index);

        /* The vCPU could not stop before the exception, or the step changed nothing visible. */
        if (position >= plan->from || is_silent(player_next_step(plan->cpu))) {
            plan_back_to(behind - 1);
            return true;
        }
    } else if (plan->is_silent) {
        plan_next_step();
        return true;
    }
    return false;
}

/* --- begin and end of a move ----------------------------------------------------------- */

/*
 * Return true if the move may take long enough for the user to interrupt it.  Then there must be a
 * snapshot of the starting moment, so that an interrupted move ends there or further on.
 */
static bool is_long(const Plan *plan)
{
    uint64_t far = MAX(plan->target, debugger.now) - MIN(plan->target, debugger.now);

    return plan->going != TO && (plan->reason != STOP_STEPPED || far > SNAPSHOT_DISTANCE);
}

/* Begin the planned move: prepare its first leg.  The caller resumes the vCPUs. */
static void begin_way(void)
{
    Plan *plan = &debugger.plan;
    CPUState *cpu;

    /* A hit that gdb has not asked for: cpu_check_watchpoint() would take it for a pending stop. */
    CPU_FOREACH(cpu) {
        cpu->watchpoint_hit = NULL;
    }
    debugger.history = NULL;
    plan->window = FIRST_WINDOW;
    keep_snapshot(is_long(plan) ? 1 : SNAPSHOT_DISTANCE);
    be_safe_at(last_snapshot());
    if (plan->going == TO || !hits_possible()) {
        go_to(plan->target);
    } else if (plan->going == FORWARD) {
        note_hits(HITS_FIRST);
        if (plan->reason == STOP_STEPPED || debugger.shown.moment == debugger.now) {
            hits_ignore(plan->cpu->cpu_index, recorder_position(plan->cpu));
        }
    } else if (debugger.now > debugger.first) {
        scan_before(debugger.now);
    } else {
        go_to(debugger.first);
    }
    if (!next_leg()) {
        begin_leg(debugger.now);
    }
}

/* Set cpu->watchpoint_hit if a watchpoint has ended the move: gdbstub puts it in the stop reply. */
static void show_hit(void)
{
    Plan *plan = &debugger.plan;
    CPUWatchpoint *wp;

    plan->cpu->watchpoint_hit = NULL;
    QTAILQ_FOREACH(wp, &plan->cpu->watchpoints, entry) {
        if (plan->reason == STOP_HIT && plan->hit.is_watchpoint && wp->flags & BP_GDB &&
            wp->vaddr == plan->hit.address) {
            plan->cpu->watchpoint_hit = wp;
        }
    }
}

/* End the move where it is. */
static void end_way(void)
{
    Plan *plan = &debugger.plan;

    plan->going = STILL;
    debugger.alone = NULL;
    hits_keep(HITS_NONE, debugger.manifest->n_vcpus);
    g_clear_pointer(&plan->scanned, total_order_free);
}

/* End the move at its target, stop the machine, and tell gdb why. */
static void stop(void)
{
    Plan *plan = &debugger.plan;

    debugger.history = plan->reason == STOP_BEGIN ? "begin" :
                       plan->reason == STOP_END ? "end" : NULL;
    if (goes_alone()) {
        /* gdb 13 hangs if told of an end while it steps over a breakpoint.  It asks again later. */
        debugger.history = NULL;
    }
    if (plan->cpu) {
        gdb_set_stop_cpu(plan->cpu);
        show_hit();
        debugger.shown.cpu = plan->cpu;
        debugger.shown.moment = plan->reason == STOP_HIT ? debugger.now : UINT64_MAX;
        debugger.looked_at = NULL;
    }
    end_way();
    vm_stop(plan->reason == STOP_THERE ? RUN_STATE_PAUSED : RUN_STATE_DEBUG);
}

/* Abandon the move, which was interrupted or diverged, and go to plan.safe. */
static void give_up(void)
{
    uint64_t safe = debugger.plan.safe;
    const Snapshot *snapshot = snapshots_at(safe);

    end_way();
    if ((!snapshot || snapshot_moment(snapshot) != safe) &&
        total_order_checkpoint(debugger.directory, debugger.manifest, safe) !=
        debugger.checkpoint) {
        /* @safe was a first snapshot.  A restart at another checkpoint has dropped it. */
        begin_before(safe);
        snapshot = snapshots_at(safe);
    }
    /* If begin_before() has failed, the last snapshot before now is as good as it gets. */
    go_to_snapshot(snapshot ?: snapshots_at(debugger.now));
}

static void tell_divergence(const char *divergence)
{
    error_report("the replay differs from the recording: %s", divergence);
    player_tell_divergence();
}

void debugger_continue_way(void)
{
    const char *divergence;

    if (!qatomic_xchg(&debugger.arrived, false) || !debugger_busy()) {
        return;
    }
    pause_all_vcpus();
    divergence = player_arrive();
    debugger.now = total_order_moment(debugger.order);
    if (divergence) {
        tell_divergence(divergence);
        give_up();
        vm_stop(RUN_STATE_PAUSED);
        return;
    }
    if (next_leg()) {
        resume_all_vcpus();
        return;
    }
    if (step_again()) {
        begin_way();
        resume_all_vcpus();
        return;
    }
    if (debugger.now == debugger.last && (divergence = player_judge())) {
        tell_divergence(divergence);
    }
    stop();
}

void debugger_leg_ended(void *opaque)
{
    if (!debugger.waits) {
        debugger_continue_way();
    }
}

/* Begin a move when the machine starts, and abandon it if the machine is stopped. */
static void vm_state_changed(void *opaque, bool running, RunState state)
{
    if (!debugger_active()) {
        return;
    }
    if (running && !debugger_busy()) {
        debugger_plan_continue(false);
    }
    if (running) {
        begin_way();
    } else if (debugger_busy()) {
        give_up();              /* stopped by the user: stop() ends the move first */
    }
}

static void __attribute__((constructor)) watch_machine(void)
{
    qemu_add_vm_change_state_handler(vm_state_changed, NULL);
}
