/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See debugger.h.  All ways are made of legs: the vCPUs run in parallel up to the vector of a
 * moment, and all stand still there.  Then the next leg is chosen, or the way has ended.
 *
 *   TO        a moment.  The last legs get shorter and shorter, and there is a snapshot after
 *             each: to go back from there will take little.
 *   FORWARD   a window at a time, in which hits are noted.  If there are any, TO the first.
 *   BACKWARD  from the snapshot before to where one was, noting hits; if there are any, TO the
 *             last, else from the snapshot before that one.
 *
 * The machine runs meanwhile, for QEMU and for those who ask.  If somebody stops it, the way ends
 * at the last place of which it is known that nothing was hit before it.
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
/* TO: how much longer a leg is than the one after it. */
#define LEG_FACTOR 4
/* FORWARD: often the next hit is near; each window is twice as long as the one before it. */
#define FIRST_WINDOW (SHORT_LEG / 16)
/* As far as gdb 13 looks for the end of a sequence of exclusives, in instructions. */
#define EXCLUSIVES 16
/* How far one can go without another snapshot. */
#define SNAPSHOT_DISTANCE (SHORT_LEG / 4)

Debugger debugger;

/* --- legs -------------------------------------------------------------------------- */

static void stand_at(TotalOrder *order)
{
    total_order_free(debugger.order);
    debugger.order = order;
    debugger.now = total_order_moment(order);
}

static void go_to_snapshot(const Snapshot *snapshot)
{
    snapshots_go(snapshot);
    stand_at(total_order_copy(snapshot_order(snapshot)));
}

/* Not after now. */
static uint64_t last_snapshot(void)
{
    return snapshot_moment(snapshots_at(debugger.now));
}

static void keep_snapshot(uint64_t distance)
{
    if (debugger.now - last_snapshot() >= distance) {
        snapshots_take(debugger.order);
    }
}

/* If somebody stops it, it goes to @moment, of which there is a snapshot. */
static void be_safe_at(uint64_t moment)
{
    debugger.plan.safe = moment;
    snapshots_hold(moment);
}

/* When the vCPUs run next, they run to @moment. */
static void begin_leg(uint64_t moment)
{
    unsigned n = debugger.manifest->n_vcpus;
    g_autofree Position *cut = g_new(Position, n + 1);
    g_autoptr(GError) error = NULL;

    if (!total_order_follow(debugger.order, moment, &error) && error) {
        /* The logs were sound when they were opened. */
        error_report("%s", error->message);
    }
    for (unsigned i = 0; i <= n; i++) {
        cut[i] = total_order_reached(debugger.order, i);
    }
    qatomic_set(&debugger.arrived, false);
    player_go_on(cut);
}

/* Any thread. */
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
    PlayerOptions options = { .has_from = true, .from = checkpoint, .arrived = arrived };
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

/* Back to the one before @moment; there is no other way, so one can only say why it fails. */
static void begin_before(uint64_t moment)
{
    Error *failure = NULL;

    if (!debugger_begin_at(total_order_checkpoint(debugger.directory, debugger.manifest, moment),
                           &failure)) {
        error_report_err(failure);
    }
}

/* What lies before the first snapshot needs an earlier checkpoint. */
static const Snapshot *snapshot_for(uint64_t moment)
{
    if (!snapshots_at(moment)) {
        begin_before(moment);
    }
    return snapshots_at(moment);
}

/* --- hits -------------------------------------------------------------------------- */

/*
 * When one is noticed.  A breakpoint, before the instruction.  A watchpoint too, going forwards: gdb
 * makes the step and looks what has changed.  It does the same backwards, so then it is after it.
 */
static bool moment_of(unsigned vcpu, const Hit *hit, bool backwards, uint64_t *moment)
{
    g_autoptr(TotalOrder) order = total_order_copy(debugger.plan.scanned);

    if (!total_order_find(order, vcpu, hit->position, moment, NULL)) {
        return false;
    }
    *moment += backwards && hit->is_watchpoint;
    return true;
}

/* The first, or the last if it goes backwards, if there is any before the target. */
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
            if (moment == best && !any && plan->reason == STOP_STEPPED) {
                continue;       /* it is there by itself */
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

static void note_hits(HitsKept which)
{
    Plan *plan = &debugger.plan;

    hits_keep(which, debugger.manifest->n_vcpus);
    total_order_free(plan->scanned);
    plan->scanned = total_order_copy(debugger.order);
}

/* --- the next leg ------------------------------------------------------------------- */

static void go_to(uint64_t moment)
{
    Plan *plan = &debugger.plan;
    const Snapshot *snapshot = snapshot_for(moment);

    plan->going = TO;
    plan->target = moment;
    hits_keep(HITS_NONE, debugger.manifest->n_vcpus);
    if (moment < debugger.now ||
        (snapshot_moment(snapshot) > debugger.now && !plan->on_foot)) {
        go_to_snapshot(snapshot);
    }
}

/* The next stop on the way to a moment. */
static uint64_t next_stop(uint64_t target)
{
    uint64_t left = target - debugger.now, rest = 0;

    for (uint64_t leg = SHORT_LEG; leg < left; leg *= LEG_FACTOR) {
        rest = leg;
    }
    return debugger.now + MIN(left - rest, LONG_LEG);
}

/* The next part of the past to be looked at ends where the last one began. */
static void scan_before(uint64_t high)
{
    debugger.plan.high = high;
    go_to_snapshot(snapshot_for(high - 1));
    note_hits(HITS_LAST);
}

/* False: it has come to where it was to go. */
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
        }
        keep_snapshot(SNAPSHOT_DISTANCE);
        begin_leg(MIN(debugger.now + LONG_LEG / 4, plan->high));
        return true;
    default:
        return false;
    }
}

/* --- steps -------------------------------------------------------------------------- */

/* Nothing that somebody sees of it has changed after such a step. */
static bool is_silent(LogEventKind step)
{
    return step == LOG_EVENT_WAKE || step == LOG_EVENT_STEP || step == LOG_EVENT_ACCESS_FLAG;
}

/* Some place before the vCPU makes its step after @position; nothing moves for it. */
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

/* When the vCPU makes its step after @position, which lies before now. */
static bool find_step(unsigned vcpu, Position position, uint64_t *moment)
{
    g_autoptr(TotalOrder) order = order_before(vcpu, position);

    return order && total_order_find(order, vcpu, position, moment, NULL);
}

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

/* One of several goes on, and no other may stop it: mostly, gdb steps over a breakpoint that way. */
static bool goes_alone(void)
{
    return debugger.alone && debugger.manifest->n_vcpus > 1;
}

/*
 * From a load-exclusive gdb lets its thread go on to a breakpoint behind the store.  It takes
 * load-acquires for those, too, and then the thread may never come there, but to the end of the
 * recording, and past every hit of others.  So it stops when it has made as many steps.
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

/* It is where the step was to lead: is that all? */
static bool step_again(void)
{
    Plan *plan = &debugger.plan;

    if (plan->reason != STOP_STEPPED) {
        return false;
    }
    if (plan->backwards) {
        Position position = recorder_position(plan->cpu);
        Position behind = total_order_reached(debugger.order, plan->cpu->cpu_index);

        /* It could not stop before the exception; or nothing was to be seen. */
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

/* --- begin and end of a way ------------------------------------------------------------ */

/* Long enough for somebody to change his mind; he must find himself where he was, or further. */
static bool is_long(const Plan *plan)
{
    uint64_t far = MAX(plan->target, debugger.now) - MIN(plan->target, debugger.now);

    return plan->going != TO && (plan->reason != STOP_STEPPED || far > SNAPSHOT_DISTANCE);
}

/* All vCPUs are paused, and run soon. */
static void begin_way(void)
{
    Plan *plan = &debugger.plan;
    CPUState *cpu;

    /* If nobody has asked for it: QEMU would take it for a stop that is due. */
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

/* For gdb's answer to "why did it stop?". */
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

static void end_way(void)
{
    Plan *plan = &debugger.plan;

    plan->going = STILL;
    debugger.alone = NULL;
    hits_keep(HITS_NONE, debugger.manifest->n_vcpus);
    g_clear_pointer(&plan->scanned, total_order_free);
}

static void stop(void)
{
    Plan *plan = &debugger.plan;

    debugger.history = plan->reason == STOP_BEGIN ? "begin" :
                       plan->reason == STOP_END ? "end" : NULL;
    if (goes_alone()) {
        /* gdb 13 hangs if it meets an end while it steps over a breakpoint.  It will ask again. */
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

/* Back to a place where it is known to have been right. */
static void give_up(void)
{
    uint64_t safe = debugger.plan.safe;

    end_way();
    if (snapshot_moment(snapshots_at(safe)) != safe &&
        total_order_checkpoint(debugger.directory, debugger.manifest, safe) !=
        debugger.checkpoint) {
        /* It was the first snapshot, which went when an earlier checkpoint was needed. */
        begin_before(safe);
    }
    go_to_snapshot(snapshots_at(safe));
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
        give_up();              /* somebody else has stopped it */
    }
}

static void __attribute__((constructor)) watch_machine(void)
{
    qemu_add_vm_change_state_handler(vm_state_changed, NULL);
}
