/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A model for spin of Karma's recorder of order (Basu, Bobba, Hill: ICS 2011, sections 4.3, 4.4),
 * with positions instead of address filters.  The recorder is C code in the model.
 *
 * The steps of a processor are cut into episodes.  An edge leads from an episode to an episode of
 * another processor: a replay begins the second when it has made all of the first.  The log has no
 * edges, only the processors that each episode wakes at its end (SUCC) and that it awaits at its
 * begin (PRED).  At the end of each execution the model builds the edges from the log, as a replay
 * pairs them, and checks that
 * - they are those that the recorder meant, and have no cycle with program order;
 * - times grow along them;
 * - they order all conflicting accesses.
 *
 * The sphere is simpler than sphere.pml's, and lines pass in more ways than in the code.  A holder
 * is SAFE whenever it likes, and has no inbox: a waiter takes lines when their holders are SAFE.
 * A processor's published position is position[] while it is SAFE.
 *
 * -DINSNS=n    instructions of a processor, with one access each
 * -DOTHERS=n   instructions of processors but the first
 * -DFEW_KINDS  no instruction reads line 1
 * -DABANDON    an instruction that was granted its line may be abandoned, once
 * -DTWO        such an instruction may want the other line, too, before it is abandoned
 * -DLINGER     a waiter need not be SAFE: it may be granted its line in mid-step
 * -DBLOCKS     an instruction need not begin at a boundary: the floor is an earlier instruction
 * -DOFFERS     the writer of a line may offer it; here that is as if it had no holder from then on
 * -DUSER       a processor may be in user mode, which reaches only line 1
 * -DPASS       a requester may pass the reservation of a waiter
 * -DTICKS=n    n times, an episode of a processor ends at a boundary
 * -DFLUSHES=n  n times, all of a processor that rests or waits is written to the log
 * -DCUT        there may be a checkpoint: a barrier, before which no edge leads behind it
 * -DVECTOR     edges that vectors imply are left out
 * -DFEW_STEPS  an edge into an episode that has begun before the floor needs no step before the
 *              next hand-over
 *
 * The environment variable BROKEN switches off the rule of that number, as in sphere.pml.
 */
#define RULE_TIME 1             /* an episode with SUCC ends if an edge needs a later time */
#define RULE_FROZEN 2           /* the time of an episode with SUCC is not raised */
#define RULE_SECOND 3           /* a second edge from the same processor ends the episode */
#define RULE_AGAIN 4            /* if the episode cannot end, the second edge is counted */
#define RULE_LAST 5             /* edges leave the last episode only if no access lies behind it */
#define RULE_RELAY 6            /* nothing is added to an episode that was logged */
#define RULE_ORDERED 7          /* a step lies between an edge and the next hand-over */
#define RULE_EDGE_ORDERS 8      /* what was told before makes no edge without such a step */
#define RULE_PREVIOUSLY 9       /* an episode has one edge to each processor */
#define RULE_PASSED 10          /* the passer of a reservation comes after the waiter's sources */
#define RULE_USER_SPLIT 11      /* an episode is split at user mode only if it has not changed */
#define RULE_BARRIER 12         /* no edge leads over a cut */
#define RULE_SNAPSHOT 13        /* an edge gives the vector of its episode, not a later one */

#ifndef N
#define N 2
#endif
#ifndef LINES
#define LINES 1
#endif
#ifndef INSNS
#define INSNS 2
#endif
#ifndef OTHERS
#define OTHERS INSNS
#endif
#ifndef TICKS
#define TICKS 0
#endif
#ifndef FLUSHES
#define FLUSHES 0
#endif

#define EPISODES 9              /* of each processor, at most */
#define POSITIONS 7             /* of each processor, at most */
#define NODES (N * EPISODES)

byte broken;

/* The sphere. */
byte holders[LINES];            /* a bit for each processor */
bool owned[LINES];              /* the only holder may write the line */
byte writer[LINES];             /* the last writer that lost the line, + 1; 0: none */
byte written[LINES];            /* the position at which it lost the line */
byte reserved[LINES];           /* the waiter that has reserved the line, + 1; 0: none */
byte position[N], floor[N];
byte ordered[N];                /* the processor must not be SAFE before this position */
bool running[N];
bool waits[N];                  /* the processor has a request */
bool granted[N];                /* the request is granted, and the processor has not noticed */
byte left_kernel[N];
bool in_user[N];

/* The recorder.  A node is an episode of a processor; @now is the last of a processor's nodes. */
byte now_index[N];
bool fresh[N];                  /* no episode before @now needs an edge */
byte logged[N];                 /* nodes that are in the log, and do not change any more */
byte begin[NODES], time[NODES], succ[NODES];
byte preds[NODES];              /* two bits for each processor: how often it is in PRED */
bool user_mark[N];              /* @now has no new PRED or SUCC since user mode was entered */
byte covered[N * N];            /* positions of others that edges into @now or before cover */
int told_edges[N];              /* nodes from which edges lead into the next step */
byte told_source[N * N], told_need[N];
#ifdef VECTOR
byte known[N * N], told_known[N * N];
byte before[NODES * N];         /* how many episodes of each processor come before the node */
#endif
byte ticks, flushes;
bool was_cut;
byte cut[N];                    /* the position of the cut */
byte first_behind[N];           /* the first node behind the cut */

/* What really happened, for checks.  A step is a bit: processor * POSITIONS + position. */
int edges[NODES];               /* the nodes from which edges lead to the node */
int readers[LINES];             /* steps that have read the line since its last write */
int writers[LINES];             /* the step that wrote it last */
int conflicts[N * POSITIONS];   /* for each step, steps before it */
byte done;

c_code {
#define BROKEN(rule) (now.broken == RULE_##rule)
#define BIT(n) (1 << (n))
#define NODE(p, index) ((p) * EPISODES + (index))
#define NOW(p) NODE(p, now.now_index[p])
#define PREDS(node, p) (now.preds[node] >> 2 * (p) & 3)
#define NODES_OF(p) ((BIT(EPISODES) - 1) << (p) * EPISODES)
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
#define RAISE(a, b) ((a) = MAX_OF(a, b))
#define CHECK(what) do { if (!(what)) { uerror(#what); } } while (0)

extern void (*uerror)(char *);

/* Close @now.  The one before it, which can have no more successors, goes to the log. */
static void end_episode(int p, int at)
{
    int last = NOW(p), next = last + 1, q;

    CHECK(now.now_index[p] + 1 < EPISODES);
    now.logged[p] = now.now_index[p];
    now.now_index[p]++;
    now.fresh[p] = 0;
    now.begin[next] = at;
    now.time[next] = now.time[last] + 1;
#ifdef VECTOR
    for (q = 0; q < N; q++) {
        now.before[next * N + q] = now.before[last * N + q];
    }
    now.before[next * N + p] = now.now_index[p];
#endif
}

/*
 * Let @to come after the steps of @from before @s, by an edge from the first episode that is known
 * to have them all, or by edges that imply this one.
 */
static void follow(int to, int from, int s)
{
    int source = NOW(from), q;

    if (to == from) {
        return;
    }
    RAISE(now.told_source[to * N + from], s);
    if (s <= now.covered[to * N + from] && !BROKEN(EDGE_ORDERS)) {
        return;
    }
#ifdef USER
    if (now.in_user[from] && s == now.left_kernel[from] && s > now.begin[source] &&
        (now.user_mark[from] || BROKEN(USER_SPLIT))) {
        end_episode(from, s);
        source = NOW(from);
    }
#endif
    if (s <= now.begin[source] || (BROKEN(LAST) && now.now_index[from])) {
        if (now.fresh[from] || s < now.cut[from]) {
            if (!BROKEN(BARRIER) || !now.now_index[from]) {
                return;
            }
        }
        source--;
    }
#ifdef VECTOR
    for (q = 0; q < N; q++) {
        RAISE(now.told_known[to * N + q],
              now.before[(BROKEN(SNAPSHOT) ? NOW(from) : source) * N + q]);
    }
#endif
    if (!BROKEN(PREVIOUSLY) && (now.succ[source] | now.succ[NOW(from)]) & BIT(to)) {
        return;
    }
#ifdef VECTOR
    if (MAX_OF(now.known[to * N + from], now.told_known[to * N + from]) >
        source - NODE(from, 0)) {
        return;
    }
    RAISE(now.told_known[to * N + from], source - NODE(from, 0) + 1);
#endif
    if (source - NODE(from, 0) >= now.logged[from]) {
        now.succ[source] |= BIT(to);
    }
    if (source == NOW(from)) {
        now.user_mark[from] = 0;
    }
    now.told_edges[to] |= BIT(source);
    RAISE(now.told_need[to], now.time[source] + 1);
}

/* Let @to come after all that @waiter was told. */
static void follow_sources(int to, int waiter)
{
    int q;

    for (q = 0; q < N; q++) {
        if (now.told_source[waiter * N + q] && !BROKEN(PASSED)) {
            follow(to, q, now.told_source[waiter * N + q]);
        }
    }
}

static int oldest(int nodes)
{
    int node = 0;

    while (!(nodes & BIT(node))) {
        node++;
    }
    return node;
}

/*
 * Put what @p was told into the episode of its next step, one edge from each processor at a time.
 * The episode goes on unless that may close a cycle, or mix up wake-ups.
 */
static void emit(int p)
{
    int q, set, second, edge = 0, told_anew = 0;

    while (now.told_edges[p]) {
        edge = 1;
        set = second = 0;
        for (q = 0; q < N; q++) {
            if (now.told_edges[p] & NODES_OF(q)) {
                set |= BIT(q);
                second |= PREDS(NOW(p), q) != 0;
            }
        }
        if (now.floor[p] > now.begin[NOW(p)] &&
            ((now.succ[NOW(p)] && now.told_need[p] > now.time[NOW(p)] && !BROKEN(TIME) &&
              !BROKEN(FROZEN)) ||
             (second && !BROKEN(SECOND)))) {
            end_episode(p, now.floor[p]);
        }
        for (q = 0; q < N; q++) {
            if (set & BIT(q)) {
                int source = oldest(now.told_edges[p] & NODES_OF(q));

                now.told_edges[p] &= ~BIT(source);
                now.edges[NOW(p)] |= BIT(source);
                if (!PREDS(NOW(p), q) ||
                    (!BROKEN(SECOND) && !BROKEN(AGAIN))) {
                    CHECK(PREDS(NOW(p), q) < 3);
                    now.preds[NOW(p)] += BIT(2 * q);
                }
            }
        }
        if (!now.succ[NOW(p)] || BROKEN(FROZEN)) {
            RAISE(now.time[NOW(p)], now.told_need[p]);
        }
        now.user_mark[p] = 0;
    }
    for (q = 0; q < N; q++) {
        told_anew |= now.told_source[p * N + q] > now.covered[p * N + q];
        RAISE(now.covered[p * N + q], now.told_source[p * N + q]);
        now.told_source[p * N + q] = 0;
#ifdef VECTOR
        RAISE(now.known[p * N + q], now.told_known[p * N + q]);
        now.told_known[p * N + q] = 0;
        RAISE(now.before[NOW(p) * N + q], now.known[p * N + q]);
#endif
    }
    now.told_need[p] = 0;
#ifdef FEW_STEPS
    edge = edge && now.begin[NOW(p)] == now.floor[p];
#endif
    if ((BROKEN(EDGE_ORDERS) ? told_anew : edge) && !BROKEN(ORDERED)) {
        now.ordered[p] = now.floor[p] + 1;
    }
}

static int can_end(int p)
{
    return now.position[p] > now.begin[NOW(p)];
}

static int is_empty(int p, int index)
{
    int node = NODE(p, index);

    return now.begin[node] == now.begin[node + 1] && !now.preds[node] && !now.succ[node];
}

/* Log all of @p, which rests or waits.  An empty episode, a relay, takes the place of the last. */
static void flush(int p, int is_cut)
{
    int at = now.position[p];

    if (at == now.begin[NOW(p)] && now.preds[NOW(p)]) {
        CHECK(!is_cut);
        return;
    }
    if (at > now.begin[NOW(p)]) {
        end_episode(p, at);
    }
    if (!now.fresh[p] && !is_empty(p, now.now_index[p] - 1)) {
        if (BROKEN(RELAY)) {
            now.logged[p] = now.now_index[p];
        } else {
            end_episode(p, at);
        }
    }
    if (is_cut) {
        now.fresh[p] = 1;
        now.cut[p] = at;
        now.first_behind[p] = now.now_index[p];
    }
}

/* Return true if all processors are SAFE, and none waits for a line. */
static int is_stopped(void)
{
    int p;

    for (p = 0; p < N; p++) {
        if (now.running[p] || now.waits[p]) {
            return 0;
        }
    }
    return 1;
}

static void cut_all(void)
{
    int p;

    now.was_cut = 1;
    for (p = 0; p < N; p++) {
        CHECK(!now.told_edges[p]);
        flush(p, 1);
    }
}

/* Count an abandoned step that an edge leads into as a step. */
static void settle(int p)
{
    if (now.position[p] < now.ordered[p]) {
        now.position[p]++;
    }
}

/* At a boundary, which is the floor from now on. */
static void publish(int p)
{
    settle(p);
    now.floor[p] = now.position[p];
}

static int out_of_reach(int q, int line)
{
    return now.in_user[q] && line == 0;
}

static int in_the_way(int p, int line, int write)
{
    return write || now.owned[line] ? now.holders[line] & ~BIT(p) : 0;
}

/* Return the holders that let @p take the line now. */
static int takeable(int p, int line, int write)
{
    int q, who = 0;

    for (q = 0; q < N; q++) {
        who |= !now.running[q] || out_of_reach(q, line) ? BIT(q) : 0;
    }
    return who & in_the_way(p, line, write);
}

/* Return true if another processor has reserved the line. */
static int is_barred(int p, int line)
{
    return now.reserved[line] && now.reserved[line] != p + 1;
}

static int has(int p, int line, int write)
{
    return now.holders[line] & BIT(p) && (!write || now.owned[line]);
}

static int can_pass(int p, int line, int write)
{
    return is_barred(p, line) && takeable(p, line, write) == in_the_way(p, line, write);
}

static int can_be_served(int p, int line, int write)
{
    return !is_barred(p, line) && (takeable(p, line, write) || !in_the_way(p, line, write));
}

/* Take the line from all holders that allow it.  Return true if the request is granted. */
static int request(int p, int line, int write)
{
    int from = takeable(p, line, write), q;

    for (q = 0; q < N; q++) {
        if (from & BIT(q)) {
            int s = out_of_reach(q, line) ? now.left_kernel[q] : now.position[q];

            follow(p, q, s);
            if (now.owned[line]) {
                now.writer[line] = q + 1;
                now.written[line] = s;
            }
            now.owned[line] = 0;
            if (write) {
                now.holders[line] &= ~BIT(q);
            }
        }
    }
    if (in_the_way(p, line, write)) {
        now.reserved[line] = p + 1;
        return 0;
    }
    if (is_barred(p, line)) {
        follow_sources(p, now.reserved[line] - 1);
    } else {
        now.reserved[line] = 0;
    }
    if (now.writer[line]) {
        follow(p, now.writer[line] - 1, now.written[line]);
    }
    now.owned[line] = write || (now.owned[line] && now.holders[line] & BIT(p));
    now.holders[line] |= BIT(p);
    return 1;
}

#ifdef OFFERS
static int can_offer(int p)
{
    int line, any = 0;

    for (line = 0; line < LINES; line++) {
        any |= now.owned[line] && now.holders[line] == BIT(p) && !now.reserved[line];
    }
    return any && now.position[p] >= now.ordered[p];
}

static void offer(int p)
{
    int line;

    publish(p);
    for (line = 0; line < LINES; line++) {
        if (now.owned[line] && now.holders[line] == BIT(p) && !now.reserved[line]) {
            now.writer[line] = p + 1;
            now.written[line] = now.position[p];
            now.owned[line] = 0;
            now.holders[line] = 0;
        }
    }
}

#endif

static void enter_user(int p)
{
    publish(p);
    now.in_user[p] = now.user_mark[p] = 1;
    now.left_kernel[p] = now.position[p];
}

static void end_step(int p)
{
    now.position[p]++;
    CHECK(now.position[p] < POSITIONS);
}

/* Conflicts with steps before the last write follow from that with the last write. */
static void access_line(int p, int line, int write)
{
    int step = p * POSITIONS + now.position[p];
    int own = (BIT(POSITIONS) - 1) << p * POSITIONS;

    CHECK(has(p, line, write) && now.running[p] && !now.told_edges[p]);
    now.conflicts[step] |= (write ? now.readers[line] | now.writers[line] : now.writers[line]) &
                           ~own;
    if (write) {
        now.writers[line] = BIT(step);
        now.readers[line] = 0;
    } else {
        now.readers[line] = (now.readers[line] & ~own) | BIT(step);
    }
    end_step(p);
}

static int is_used(int node)
{
    return node <= NOW(node / EPISODES);
}

static int is_behind_cut(int node)
{
    return now.was_cut && node % EPISODES >= now.first_behind[node / EPISODES];
}

/* Let the n-th mention of @to in the SUCCs of @from wake the n-th mention of @from in its PREDs. */
static void pair(int from, int to, int *sources)
{
    int source = NODE(from, 0), target, again, meant;

    for (target = NODE(to, 0); target <= NOW(to); target++) {
        for (again = 0; again < PREDS(target, from); again++) {
            while (source <= NOW(from) && !(now.succ[source] & BIT(to))) {
                source++;
            }
            CHECK(source <= NOW(from));
            sources[target] |= BIT(source);
            source++;
        }
        meant = now.edges[target] & NODES_OF(from);
        CHECK((sources[target] & NODES_OF(from)) == meant);
    }
    while (source <= NOW(from)) {
        CHECK(!(now.succ[source] & BIT(to)));
        source++;
    }
}

/* Return the episode that has the step. */
static int node_of(int step)
{
    int p = step / POSITIONS, index = now.now_index[p];

    while (now.begin[NODE(p, index)] > step % POSITIONS) {
        index--;
    }
    return NODE(p, index);
}

/* Check the whole execution, when all processors have ended and all is in the log. */
static void check_all(void)
{
    int sources[NODES], p, q, node, other, step;

    memset(sources, 0, sizeof(sources));
    for (p = 0; p < N; p++) {
        CHECK(!now.told_edges[p]);
        for (q = 0; q < N; q++) {
            pair(q, p, sources);
        }
        for (node = NODE(p, 0); node <= NOW(p); node++) {
            int end = node < NOW(p) ? now.begin[node + 1] : now.position[p];
            int has_steps = end > now.begin[node];

            CHECK(has_steps || !now.preds[node]);
            for (other = 0; other < NODES; other++) {
                if (sources[node] & BIT(other)) {
                    CHECK(now.time[other] < now.time[node]);
                    CHECK(is_behind_cut(other) == is_behind_cut(node));
                } else if (is_behind_cut(node) && !is_behind_cut(other) && is_used(other)) {
                    sources[node] |= BIT(other);
                }
            }
            if (node > NODE(p, 0)) {
                CHECK(now.time[node - 1] < now.time[node]);
                sources[node] |= BIT(node - 1);
            }
        }
    }
    for (other = 0; other < NODES; other++) {
        for (node = 0; node < NODES; node++) {
            if (sources[node] & BIT(other)) {
                sources[node] |= sources[other];
            }
        }
    }
    for (node = 0; node < NODES; node++) {
        int cycle = sources[node] & BIT(node);

        CHECK(!cycle);
    }
    for (step = 0; step < N * POSITIONS; step++) {
        for (other = 0; other < N * POSITIONS; other++) {
            if (now.conflicts[step] & BIT(other)) {
                int is_after = sources[node_of(step)] & BIT(node_of(other));

                CHECK(is_after);
            }
        }
    }
#ifdef VECTOR
    for (node = 0; node < NODES; node++) {
        for (q = 0; q < N; q++) {
            int n = now.before[node * N + q];
            int is_known = !n || sources[node] & BIT(NODE(q, n - 1));

            CHECK(is_known);
        }
    }
#endif
}
}

/* At a boundary, between two instructions. */
#define AT_BOUNDARY (running[p] && n < insns && !chosen && !rested)

inline choose(p) {
    if
    :: line = 0; write = true
    :: line = 0; write = false
#if LINES > 1
    :: line = 1; write = true
#ifndef FEW_KINDS
    :: line = 1; write = false
#endif
#endif
#ifdef USER
    :: in_user[p] -> computes = true
#endif
    fi;
    if
    :: !computes && line == 0 -> in_user[p] = false
    :: else
    fi;
    if
    :: c_code { publish(PVcpu->p); }
#ifdef BLOCKS
    :: true
#endif
    fi
}

/* Make the instruction that was granted its line. */
inline commit(p) {
    if
#ifdef ABANDON
    :: !abandoned -> abandoned = true; c_code { publish(PVcpu->p); }; running[p] = false
#endif
#ifdef TWO
    :: !abandoned && !in_user[p] -> abandoned = true; line = 1 - line
#endif
    :: c_code { access_line(PVcpu->p, PVcpu->line, PVcpu->write); }; next_instruction()
    fi
}

inline next_instruction() {
    n++;
    line = 0;
    write = false;
    chosen = false;
    rested = false;
    abandoned = false
}

/* What a processor does while nothing can be taken from it is atomic. */
proctype Vcpu(byte p) {
    byte n, line, insns = (p -> OTHERS : INSNS);
    bool write, chosen, rested, abandoned, computes;

    do
    :: atomic { AT_BOUNDARY && position[p] > 0 ->
            rested = true;
            c_code { publish(PVcpu->p); };
            running[p] = false
        }
#if TICKS
    :: atomic { AT_BOUNDARY && ticks < TICKS && c_expr { (can_end(PVcpu->p)) } ->
            rested = true;
            ticks++;
            c_code { publish(PVcpu->p); end_episode(PVcpu->p, now.position[PVcpu->p]); }
        }
#endif
#ifdef OFFERS
    :: atomic { AT_BOUNDARY && c_expr { (can_offer(PVcpu->p)) } ->
            rested = true;
            c_code { offer(PVcpu->p); }
        }
#endif
#ifdef USER
    :: atomic { AT_BOUNDARY && !in_user[p] && position[p] > 0 ->
            rested = true;
            c_code { enter_user(PVcpu->p); }
        }
#endif
    :: atomic { !running[p] && !waits[p] -> running[p] = true }
    :: atomic { running[p] && !waits[p] && n < insns ->
            if
            :: !chosen -> choose(p); chosen = true
            :: else
            fi;
            if
            :: computes -> c_code { end_step(PVcpu->p); }; computes = false; next_instruction()
            :: !computes && c_expr { (has(PVcpu->p, PVcpu->line, PVcpu->write)) } ->
                c_code { access_line(PVcpu->p, PVcpu->line, PVcpu->write); };
                next_instruction()
            :: else ->
                if
                :: c_expr { (!is_barred(PVcpu->p, PVcpu->line)) } ->
                    c_code {
                        now.waits[PVcpu->p] = !request(PVcpu->p, PVcpu->line, PVcpu->write);
                    }
                :: c_expr { (is_barred(PVcpu->p, PVcpu->line)) } -> waits[p] = true
#ifdef PASS
                :: c_expr { (can_pass(PVcpu->p, PVcpu->line, PVcpu->write)) } ->
                    c_code { request(PVcpu->p, PVcpu->line, PVcpu->write); }
#endif
                fi;
                if
                :: waits[p] -> c_code { publish(PVcpu->p); }; running[p] = false
#ifdef LINGER
                :: waits[p]
#endif
                :: else -> c_code { emit(PVcpu->p); }; commit(p)
                fi
            fi
        }
#ifdef LINGER
    :: atomic { waits[p] && running[p] && !granted[p] ->
            c_code { publish(PVcpu->p); };
            running[p] = false
        }
#endif
    :: atomic { waits[p] && !granted[p] &&
            c_expr { (can_be_served(PVcpu->p, PVcpu->line, PVcpu->write)) } ->
            c_code {
                now.granted[PVcpu->p] = request(PVcpu->p, PVcpu->line, PVcpu->write);
                now.running[PVcpu->p] |= now.granted[PVcpu->p];
            }
        }
    :: atomic { granted[p] ->
            granted[p] = false;
            waits[p] = false;
            c_code { emit(PVcpu->p); };
            commit(p)
        }
    :: atomic { running[p] && n == insns ->
            c_code { publish(PVcpu->p); };
            running[p] = false;
            done++
        };
        break
    od
}

#if FLUSHES
/* A processor that rests, waits, or was granted its line and has not noticed. */
#define FLUSH(p) \
    atomic { flushes < FLUSHES && done < N && (!running[p] || granted[p]) -> \
        flushes++; \
        c_code { flush(p, 0); } \
    }

proctype Ticker() {
    do
    :: FLUSH(0)
    :: FLUSH(1)
#if N > 2
    :: FLUSH(2)
#endif
    :: done == N -> break
    od
}
#endif

init {
    atomic {
        c_code {
            const char *number = getenv("BROKEN");
            now.broken = number ? atoi(number) : 0;
        };
        running[0] = true;
        fresh[0] = true;
        running[1] = true;
        fresh[1] = true;
        run Vcpu(0);
        run Vcpu(1);
#if N > 2
        running[2] = true;
        fresh[2] = true;
        run Vcpu(2);
#endif
#if FLUSHES
        run Ticker()
#endif
    };
    do
#ifdef CUT
    :: atomic { !was_cut && done < N && c_expr { (is_stopped()) } -> c_code { cut_all(); } }
#endif
    :: atomic { done == N -> c_code { check_all(); }; break }
    od
}
