/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Replays a recording.  Each vCPU thread runs up to the next event of its order, applies the
 * event, and goes on.  In between, instructions take their inputs from the vCPU's data log.
 * Devices do not run, and interrupt lines are ignored.
 *
 * Invariant: no page walk, TB lookup or translation for a step happens before all events at the
 * step's position are applied.
 *
 * Concurrency: vCPUs run in parallel, ordered by the recorded arcs (protocol/schedule.h).  A
 * function runs in the thread of the vCPU that it gets, unless its comment says otherwise.  A vCPU
 * waits only at a boundary, without locks.  Before it waits for another stream, it publishes its
 * position.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "chardev/char.h"
#include "hw/core/cpu.h"
#include "system/cpus.h"
#include "system/runstate.h"
#include "system/system.h"

#include "hw/recorder/chaos-vcpu.h"
#include "hw/recorder/memory-map.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/replay-port.h"
#include "hw/recorder/target.h"
#include "hw/recorder/translations.h"
#include "hw/recorder/vcpu.h"
#include "recording/log-reader.h"
#include "recording/log-writer.h"
#include "recording/position.h"
#include "recording/registers.h"
#include "replay/access-watch.h"
#include "replay/paranoid.h"
#include "replay/player-internal.h"
#include "replay/standby.h"

/*
 * Return how many steps a vCPU may make without a boundary.  For an exception
 * cpu_handle_exception() counts two, the fault and its delivery.  If the delivery touches memory,
 * there is a boundary between them (recorder_fault_slow()), but none behind an instruction that
 * completes and raises an exception, such as INT.
 */
static unsigned steps_without_boundary(void)
{
    return recorder_delivers_unlocked() ? 1 : 2;
}

Player player;

/* --- what other streams see ------------------------------------------------- */

/* Return true for the events that only order streams: a WAIT may follow on an EPISODE. */
static bool orders_streams(LogEventKind kind)
{
    return kind == LOG_EVENT_WAIT || kind == LOG_EVENT_EPISODE;
}

/*
 * Return how many steps of a vCPU at @position other streams may know of.  A step behind a WAIT
 * that was passed stands for what the WAIT is for: whoever waits for that step waits for no other.
 */
static Position visible(const ReplayingVcpu *r, Position position)
{
    return orders_streams(r->read.kind) ? MIN(position, r->read.position) : position;
}

/* Let other streams know how far @cpu is. */
static void publish(CPUState *cpu)
{
    schedule_publish(player.schedule, cpu->cpu_index,
                     visible(cpu->recorder->replay, recorder_position(cpu)));
}

/* --- divergence ------------------------------------------------------------- */

/* Tell the debugger that the vCPUs have arrived.  Without a debugger, stop the machine. */
static void arrive(void)
{
    /* A vCPU that accesses a device or delivers an interrupt may hold the BQL already. */
    bool had_lock = bql_locked();

    if (player.arrived) {
        player.arrived();
        return;
    }
    if (!had_lock) {
        bql_lock();
    }
    vm_stop(RUN_STATE_PAUSED);
    if (!had_lock) {
        bql_unlock();
    }
}

void player_diverged(CPUState *cpu, Position position, const char *format, ...)
{
    RecorderVcpu *v = cpu->recorder;
    g_autofree char *what = NULL;
    char *report;
    va_list ap;

    if (v->finished) {
        return;
    }
    va_start(ap, format);
    what = g_strdup_vprintf(format, ap);
    va_end(ap);
    report = g_strdup_printf("vCPU %d at position %" PRIu64 ": %s", cpu->cpu_index, position, what);
    if (qatomic_cmpxchg(&player.divergence, NULL, report)) {
        g_free(report);
    } else {
        player.diverged_at.vcpu = cpu->cpu_index;
        player.diverged_at.position = position;
        player.diverged_at.known = true;
    }
    qatomic_set(&v->finished, true);
    arrive();
}

/* End the replay of @cpu, which is at its end or cut.  The last vCPU to do so calls arrive(). */
static void finish(CPUState *cpu)
{
    qatomic_set(&cpu->recorder->finished, true);
    publish(cpu);
    schedule_end(player.schedule, cpu->cpu_index);
    if (qatomic_fetch_dec(&player.n_running) == 1) {
        arrive();
    }
}

/* --- the logs --------------------------------------------------------------- */

/* Note how a read of @event has ended. */
static void end_read(CPUState *cpu, LogReaderResult result, LogEvent *event, const GError *error)
{
    if (result == LOG_READER_EVENT) {
        return;
    }
    if (result == LOG_READER_BAD) {
        player_diverged(cpu, recorder_position(cpu), "%s", error->message);
    }
    *event = (LogEvent) { .kind = LOG_EVENT_KINDS, .position = UINT64_MAX };
}

void player_next_event(CPUState *cpu, LogReader *reader, LogEvent *event)
{
    g_autoptr(GError) error = NULL;
    LogReaderResult result = log_reader_next(reader, event, &error);

    end_read(cpu, result, event, error);
}

LogReaderResult player_read_order(unsigned stream, LogEvent *event, GError **error)
{
    LogReaderResult result;

    do {
        result = order_reader_next(player.order, stream, event, error);
    } while (result == LOG_READER_EVENT && event->kind == LOG_EVENT_EPISODE &&
             wake_ups_announce(player.wakes, stream, event->position, event->value[1]));
    return result;
}

void player_next_ordered(CPUState *cpu, unsigned stream, LogEvent *event)
{
    g_autoptr(GError) error = NULL;
    LogReaderResult result = player_read_order(stream, event, &error);

    end_read(cpu, result, event, error);
}

bool player_is_before_cut(const LogEvent *event, Position cut)
{
    return event->position < cut || (event->kind == LOG_EVENT_EPISODE && event->position == cut);
}

void player_stop_at_cut(RecorderVcpu *v)
{
    ReplayingVcpu *r = v->replay;

    r->next = r->read;
    if (!player_is_before_cut(&r->read, r->cut)) {
        r->next = (LogEvent) { .kind = LOG_EVENT_KINDS, .position = r->cut };
    }
    qatomic_set(&v->next_kind, r->next.kind);
    qatomic_set(&v->next_position, r->next.position);
}

/*
 * Return true if @v may be at @position, though that is past its cut, or past an EPISODE or WAIT.
 * These may lie between an instruction and the exception that the instruction raised, where a vCPU
 * cannot stop: a moment, the end of the last episode of a log, and where an episode ends and
 * the next one begins if the vCPU was SAFE there.  Then the vCPU stops at the next boundary, and
 * waits there.  The steps that it passes touch no memory, so no step of another stream conflicts
 * with them.  What other streams see of @v does not pass: see visible().
 *
 * All other events were logged at boundaries, where replay can stop.
 */
static bool may_pass(const RecorderVcpu *v, Position position)
{
    LogEventKind kind = v->replay->next.kind;

    return (kind == LOG_EVENT_KINDS || orders_streams(kind)) &&
           position <= v->replay->next.position + steps_without_boundary();
}

/* Return true if @cpu is where its next event, or its cut, is due. */
static bool is_due(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;
    Position position = recorder_position(cpu);

    return position == v->replay->next.position ||
           (position > v->replay->next.position && may_pass(v, position));
}

/* Return the next event of the order log in words.  The caller frees the text. */
static char *what_is_due(const RecorderVcpu *v)
{
    return v->replay->next.kind == LOG_EVENT_KINDS ? g_strdup("the end of the log") :
           log_event_format(&v->replay->next);
}

/* Report a divergence if an event is due before the step that begins at @position. */
static void begin_step(CPUState *cpu, Position position)
{
    RecorderVcpu *v = cpu->recorder;

    if (position >= v->replay->next.position && !may_pass(v, position + 1)) {
        g_autofree char *due = what_is_due(v);

        player_diverged(cpu, position, "%s, but an exception came first", due);
    }
}

static bool take_if_due(CPUState *cpu, Position position, LogEventKind kind, uint64_t *value)
{
    RecorderVcpu *v = cpu->recorder;
    LogEvent *next = &v->replay->next_input;

    if (next->kind != kind || next->position != position) {
        return false;
    }
    memcpy(value, next->value, log_event_table()[kind].n_values * sizeof(*value));
    recorder_count(v, RECORDER_COUNT_INPUTS);
    player_next_event(cpu, v->replay->data, next);
    return true;
}

static bool take(CPUState *cpu, Position position, LogEventKind kind, uint64_t *value)
{
    RecorderVcpu *v = cpu->recorder;

    if (v->finished) {
        return false;
    }
    if (!take_if_due(cpu, position, kind, value)) {
        g_autofree char *due = v->replay->next_input.kind == LOG_EVENT_KINDS ?
            g_strdup("no more inputs") : log_event_format(&v->replay->next_input);

        player_diverged(cpu, position, "expected %s, seen %s", due, log_event_name(kind));
        return false;
    }
    return true;
}

void player_check_digest(CPUState *cpu, const LogEvent *event)
{
    RecorderVcpu *v = cpu->recorder;
    Registers seen;
    uint64_t digest;

    recorder_registers(cpu, &seen);
    digest = registers_digest(recorder_register_set, &seen);
    if (digest != event->value[0]) {
        g_autofree char *which = registers_difference(recorder_register_set,
                                                       &v->replay->expected, &seen);

        player_diverged(cpu, event->position, "expected register digest %016" PRIx64
                        ", seen %016" PRIx64 ", the same at position %" PRIu64 ": %s",
                        event->value[0], digest, v->replay->same_at,
                        which ?: "which one is not known");
    } else if (v->store_hash != event->value[1]) {
        player_diverged(cpu, event->position, "expected device store hash %016" PRIx64
                        ", seen %016" PRIx64 ", the same at position %" PRIu64,
                        event->value[1], v->store_hash, v->replay->same_at);
    }
    v->replay->same_at = event->position;
}

/* Apply a REGISTERS event: the recorded registers of the next digest. */
static void expect_registers(CPUState *cpu, const LogEvent *event)
{
    const char *wrong = registers_apply(recorder_register_set,
                                        &cpu->recorder->replay->expected, event->bytes,
                                        event->n_bytes);

    if (wrong) {
        player_diverged(cpu, event->position, "registers in the log: %s", wrong);
    }
}

/* --- order ------------------------------------------------------------------ */

static CPUState *vcpu(unsigned stream)
{
    return stream < player.manifest->n_vcpus ? qemu_get_cpu(stream) : NULL;
}

/* Make @stream publish its position soon.  DMA has no thread to be kicked.  Any thread. */
static void kick(unsigned stream)
{
    CPUState *cpu = vcpu(stream);

    if (cpu) {
        recorder_kick(cpu);
    }
}

/* Return true if vCPU @stream must leave cpu_exec(), or replay has diverged.  Any thread. */
static bool interrupted(unsigned stream)
{
    return qatomic_read(&vcpu(stream)->exit_request) || qatomic_read(&player.divergence);
}

void player_new_schedule(RecorderVcpu *const v[], bool one_at_a_time)
{
    static const ScheduleOps ops = { .kick = kick, .interrupted = interrupted };
    unsigned n = player.manifest->n_vcpus;

    g_clear_pointer(&player.schedule, schedule_free);
    player.schedule = schedule_new(n + 1, &ops);
    if (player.wakes) {
        schedule_follow_wake_ups(player.schedule, player.wakes);
    }
    if (one_at_a_time) {
        schedule_take_turns(player.schedule, n);
    } else {
        schedule_share_cores(player.schedule, n);
    }
    for (unsigned i = 0; i < n; i++) {
        schedule_publish(player.schedule, i, visible(v[i]->replay, v[i]->base));
    }
    schedule_publish(player.schedule, n, player.dma.steps);
    player.n_running = n;
}

/* Return how far @cpu may run: to its next event, or to where another stream waits for it. */
static Position limit(CPUState *cpu)
{
    return MIN(cpu->recorder->replay->next.position,
               schedule_wanted(player.schedule, cpu->cpu_index));
}

ScheduleWait player_wait_of(unsigned stream, const LogEvent *event)
{
    unsigned source = MIN(event->value[0], player.manifest->n_vcpus);

    return (ScheduleWait) { stream, source, event->value[1] };
}

void player_show_wait(RecorderVcpu *v, const ScheduleWait *wait)
{
    qatomic_set(&v->waited_stream, wait->stream);
    qatomic_set(&v->waited_steps, wait->count);
    recorder_waits(v, player.wakes ? RECORDER_WAITS_FOR_WAKE_UP : RECORDER_WAITS_FOR_STREAM);
}

/*
 * The wait lies between cpu_exec_end() and cpu_exec_start(), so it does not hold up threads that
 * call start_exclusive().
 */
bool player_wait_for_vcpu(CPUState *cpu, const ScheduleWait *wait)
{
    bool done;

    if (schedule_is_over(player.schedule, wait)) {
        return true;
    }
    player_show_wait(cpu->recorder, wait);
    cpu_exec_end(cpu);
    done = schedule_wait(player.schedule, cpu->cpu_index, wait);
    cpu_exec_start(cpu);
    recorder_waits(cpu->recorder, RECORDER_WAITS_FOR_NOTHING);
    return done;
}

/*
 * Wait as the WAIT @event says, for a vCPU or DMA.  Return as player_wait_for_vcpu().  @cpu
 * publishes its position first, since that stream may have to wait for @cpu.
 */
static bool wait_for(CPUState *cpu, const LogEvent *event)
{
    ScheduleWait wait = player_wait_of(cpu->cpu_index, event);

    publish(cpu);
    return wait.stream < player.manifest->n_vcpus ? player_wait_for_vcpu(cpu, &wait)
                                                  : player_wait_for_dma(cpu, &wait);
}

/* Announce an EPISODE for which there was no room before.  Those before it are sent first. */
static void end_episode(CPUState *cpu, const LogEvent *event)
{
    publish(cpu);
    wake_ups_announce(player.wakes, cpu->cpu_index, event->position, event->value[1]);
}

/*
 * Deliver an interrupt.  The delivery to an x86 vCPU touches memory, and belongs to its own step.
 * It may raise an exception, and then does not return.
 */
static void deliver(CPUState *cpu, const LogEvent *event)
{
    if (recorder_delivers_unlocked()) {
        cpu->recorder->delivers = true;
        recorder_deliver(cpu, event->value[0], event->value[1]);
        recorder_interrupt_ends_slow(cpu);
    } else {
        recorder_count(cpu->recorder, RECORDER_COUNT_INTERRUPTS);
        recorder_step(cpu);
        recorder_deliver(cpu, event->value[0], event->value[1]);
    }
}

/* Make the map of a MAP event this machine's. */
static void use_map(CPUState *cpu, const LogEvent *event, const char *map)
{
    bool good;

    bql_lock();
    good = memory_map_apply(map);
    bql_unlock();
    if (!good) {
        player_diverged(cpu, event->position, "the log has no map of this machine's memory");
    }
}

static void apply(CPUState *cpu, const LogEvent *event)
{
    switch (event->kind) {
    case LOG_EVENT_WAIT:
        recorder_count(cpu->recorder, RECORDER_COUNT_ARCS);     /* the wait is over */
        break;
    case LOG_EVENT_INTERRUPT:
        deliver(cpu, event);
        break;
    case LOG_EVENT_WAKE:
        recorder_count(cpu->recorder, RECORDER_COUNT_WAKE_UPS);
        recorder_step(cpu);
        recorder_woken(cpu);
        break;
    case LOG_EVENT_STEP:
        recorder_step(cpu);
        break;
    case LOG_EVENT_DROP:
        if (!paranoid_ignores_drops()) {
            recorder_drop(cpu, event->value[0]);
        }
        break;
    case LOG_EVENT_START:
        recorder_step(cpu);
        recorder_turn_on(cpu, event->value[0], event->value[1], event->value[2]);
        break;
    case LOG_EVENT_MARK:
        break;
    case LOG_EVENT_MAP:
        recorder_step(cpu);     /* use_map() has used its bytes */
        break;
    case LOG_EVENT_EPISODE:
        break;          /* end_episode() has announced it */
    case LOG_EVENT_REGISTERS:
        break;          /* expect_registers() has used its bytes */
    case LOG_EVENT_ACCESS_FLAG:
        if (!access_watch_write_flag(cpu, event->position, event->value[0], event->value[1])) {
            player_diverged(cpu, event->position, "an access flag lies outside of main memory");
        }
        recorder_step(cpu);
        break;
    case LOG_EVENT_DIGEST:
        player_check_digest(cpu, event);
        break;
    case LOG_EVENT_END:
        player_check_digest(cpu, event);
        if (!cpu->recorder->finished) {
            finish(cpu);
        }
        break;
    default:
        player_diverged(cpu, event->position, "cannot replay %s",
                        log_event_name(event->kind));
        break;
    }
}

static void advance(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    player_next_ordered(cpu, cpu->cpu_index, &v->replay->read);
    player_stop_at_cut(v);
}

/* Skip WAITs that are over already, so that the vCPU need not stop at their positions. */
static void skip_waits_that_are_over(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    while (!v->finished && v->replay->next.kind == LOG_EVENT_WAIT) {
        ScheduleWait wait = player_wait_of(cpu->cpu_index, &v->replay->next);

        if (!schedule_is_over(player.schedule, &wait)) {
            return;
        }
        recorder_count(v, RECORDER_COUNT_ARCS);
        advance(cpu);
    }
}

/*
 * Wait for @cpu's turn, if vCPUs take turns.  Return false if @cpu must leave cpu_exec() before it
 * gets its turn.
 */
static bool have_turn(CPUState *cpu)
{
    bool has = schedule_has_turn(player.schedule, cpu->cpu_index);

    if (!has) {
        cpu_exec_end(cpu);
        has = schedule_turn(player.schedule, cpu->cpu_index);
        cpu_exec_start(cpu);
    }
    return has;
}

bool recorder_replay_boundary(CPUState *cpu, bool *applied)
{
    RecorderVcpu *v = cpu->recorder;
    bool leave;

    access_watch_settle(cpu);
    leave = !v->finished && !have_turn(cpu);
    if (!leave) {
        recorder_digest_if_due(cpu);
    }
    while (!v->finished && !leave && is_due(cpu)) {
        LogEvent event = v->replay->next;

        if (event.kind == LOG_EVENT_WAIT && !wait_for(cpu, &event)) {
            leave = true;
            break;
        }
        if (event.kind == LOG_EVENT_KINDS) {
            finish(cpu);                        /* the cut: a debugger may go on from here */
            break;
        }
        if (event.kind == LOG_EVENT_REGISTERS) {
            expect_registers(cpu, &event);      /* advance() invalidates its bytes */
        } else if (event.kind == LOG_EVENT_MAP) {
            g_autofree char *map = g_strndup((const char *)event.bytes, event.n_bytes);

            use_map(cpu, &event, map);
        } else if (event.kind == LOG_EVENT_EPISODE) {
            end_episode(cpu, &event);           /* advance() announces those behind it */
        }
        /* Before apply(): if the event is a step, begin_step() and limit() use the next event. */
        advance(cpu);
        apply(cpu, &event);
        *applied = true;
        /* Queued work turns the vCPU on, or drops all translations, outside of cpu_exec(). */
        leave = event.kind == LOG_EVENT_START || event.kind == LOG_EVENT_MAP ||
                (event.kind == LOG_EVENT_WAKE && cpu->exception_index >= 0) ||
                (event.kind == LOG_EVENT_WAIT && qatomic_read(&cpu->exit_request));
        if (!leave) {
            recorder_digest_if_due(cpu);
        }
    }
    if (v->log) {
        log_stream_boundary(v->log);
    }
    recorder_chaos(cpu);
    recorder_drop_translations(cpu);
    if (!leave && !v->finished && cpu->exception_index < 0) {
        paranoid_check(cpu);
    }
    if (!v->finished && recorder_position(cpu) > v->replay->next.position &&
        !may_pass(v, recorder_position(cpu))) {
        g_autofree char *due = what_is_due(v);

        player_diverged(cpu, recorder_position(cpu), "ran past %s", due);
    }
    publish(cpu);
    skip_waits_that_are_over(cpu);
    if (v->finished) {
        cpu_exec_end(cpu);
        schedule_idle(player.schedule, cpu->cpu_index);
        cpu_exec_start(cpu);
        recorder_grant(cpu, recorder_position(cpu));
        return true;
    }
    recorder_grant(cpu, recorder_limit(cpu));
    return leave || qatomic_read(&cpu->exit_request) || recorder_take_points(cpu);
}

/* --- console ---------------------------------------------------------------- */

/*
 * Return true if the console has shown what @cpu stores at its position: a debugger has been there
 * before.  Otherwise remember that it is shown now.
 */
static bool is_shown(CPUState *cpu)
{
    Position *shown = player.shown ? &player.shown[cpu->cpu_index] : NULL;
    Position now = recorder_position(cpu);

    if (shown && now <= *shown) {
        return true;
    }
    if (shown) {
        *shown = now;
    }
    return false;
}

/* Write what the guest stores to its UART to the console. */
static void show_store(CPUState *cpu, hwaddr address, uint64_t value)
{
    Chardev *console = serial_hd(0);
    uint8_t byte = value;

    if (!console_shows(&player.console, address, value) || !console || is_shown(cpu)) {
        return;
    }
    if (player.standby) {
        standby_keep(byte);
    } else {
        qemu_chr_write_all(console, &byte, 1);
    }
}

const ReplayPort player_port = {
    .limit = limit,
    .boundary = recorder_replay_boundary,
    .step = begin_step,
    .take = take,
    .take_if_due = take_if_due,
    .store = show_store,
    .diverged = player_diverged,
    .note = access_watch_note,
};
