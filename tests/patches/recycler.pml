/*
 * The protocol of the page recycler (doc/recycler.md), for Spin.
 *
 * A guest with two processors and a host with two threads share the states of two pages. The guest writes what it takes,
 * and looks at it again; the host drops pages that it won. A thread of the host may stop for good between any two steps.
 * With EVENTS the host has one thread, and meanwhile the guest is copied to another host, or takes the table back: then one
 * of its processors marks no more, then the other, and the marks are wiped.
 *
 * What must hold:
 *   - what the guest wrote is there for as long as it uses the page; what it takes to be zero is zero
 *   - a thread that goes on to something else has left no page busy
 *   - nobody writes to a table that was taken back
 *   - the guest comes to its end whatever the host does: an end in which it waits is an error of its own for Spin
 *   - a page does not stay busy while the thread that made it so lives (the formula `ended`)
 *
 * Each BREAK_… takes one rule away, and must be found.
 */

#define PAGES   2
#define ROUNDS  (2 - _pid % 2)  /* one processor takes two pages, the other one */
#define MARKS   on[_pid % 2]

#define USED      0
#define FREE      1
#define BUSY      2
#define RECYCLED  3
#define ZERO      4

#ifdef EVENTS
#define HOSTS   1
#else
#define HOSTS   2
#endif

#define NOTHING   0     /* what a page reads as */
#define WRITTEN   1
#define LEFT      2     /* what its last user left there */

#ifdef BREAK_GIVES_WHILE_COPIED
#define MAY_BEGIN       (table)
#define NONE_BEFORE     (true)
#else
#define MAY_BEGIN       (table && !copying)
#define NONE_BEFORE     (inside == 0)
#endif
#ifdef BREAK_ANSWERS_EARLY
#define NONE_INSIDE     (true)
#else
#define NONE_INSIDE     (inside == 0)
#endif

byte state[PAGES];
byte content[PAGES];
bool listed[PAGES];     /* on the guest's free lists, or set aside: nobody in the guest uses it */
bool dirty[PAGES];      /* written since it was copied */
byte copied[PAGES];     /* content on the other host */

bool table = true;      /* the host may write to it */
bool on[2] = true;      /* whether a processor marks pages, and looks at marks */
bool known = true;      /* whether a page that is marked as zero need not be cleared */
bool copying = false;
byte inside = 0;        /* threads of the host between winning a page and ending it */
byte dead = 0;          /* of these, how many stopped for good */
byte guests = 2;        /* processors that have not come to their end */

inline win(p, won)
{
#ifdef BREAK_PLAIN_WIN
        byte was;
        was = state[p];
        if
        :: was == FREE -> state[p] = BUSY; won = true
        :: else -> won = false
        fi
#else
        atomic {
                if
                :: state[p] == FREE -> state[p] = BUSY; won = true
                :: else -> won = false
                fi
        }
#endif
}

/* taken: the page is the guest's */
inline take(p, taken)
{
#ifdef BREAK_PLAIN_TAKE
        byte seen;
        seen = state[p];
        if
        :: seen == FREE -> state[p] = USED; taken = true
        :: seen == RECYCLED -> state[p] = ZERO; taken = true
        :: else
        fi
#else
        atomic {
                if
                :: !MARKS -> taken = true
                :: MARKS && state[p] == FREE -> state[p] = USED; taken = true
                :: MARKS && state[p] == RECYCLED -> state[p] = ZERO; taken = true
#ifdef BREAK_TAKES_BUSY
                :: MARKS && state[p] == BUSY -> state[p] = USED; taken = true
#endif
                :: MARKS && (state[p] == USED || state[p] == ZERO) -> taken = true /* it was freed without a mark */
                :: else
                fi
        }
#endif
}

active [2] proctype guest()
{
        byte round, p;
        bool mine, taken;

        do
        :: round == ROUNDS -> break
        :: else ->
                /* the lock of the free lists: a page is taken off them by one processor */
                atomic {
                        round++;
                        taken = false;
                        mine = false;
                        if
                        :: listed[0] -> p = 0; listed[0] = false; mine = true
                        :: listed[1] -> p = 1; listed[1] = false; mine = true
                        :: !listed[0] && !listed[1]     /* no memory: the allocation fails, and nobody waits */
                        fi
                }
                if
                :: mine ->
#ifdef BREAK_WAITS
                        (state[p] != BUSY);
#endif
                        take(p, taken);
                        if
                        :: !taken -> listed[p] = true   /* set aside, and back on the lists in the end */
                        :: taken ->
                                if
                                :: MARKS && state[p] == ZERO ->
                                        assert(!known || content[p] == NOTHING);
#ifndef BREAK_STAYS_ZERO
                                        state[p] = USED
#endif
                                :: else
                                fi;
                                atomic { content[p] = WRITTEN; dirty[p] = true };
                                assert(content[p] == WRITTEN);
                                /* freed to a per-CPU list, and used again from there: no mark tells */
                                assert(!known || !on[0] && !on[1] || state[p] != ZERO || content[p] == NOTHING);
                                assert(content[p] == WRITTEN);
                                content[p] = LEFT;
#ifdef BREAK_MARKS_EARLY
                                state[p] = FREE;
                                content[p] = WRITTEN;
                                assert(content[p] == WRITTEN);
#endif
                                atomic {
                                        if
                                        :: MARKS && (state[p] == USED || state[p] == ZERO) -> state[p] = FREE
                                        :: else /* what is marked keeps its mark */
                                        fi
                                };
                                listed[p] = true
                        fi
                :: else
                fi
        od;
        guests--
}

active [HOSTS] proctype host()
{
        byte p;
        bool won[PAGES];
        bool any, failed;

        do
        :: guests == 0 -> break
        :: atomic { MAY_BEGIN -> inside++ };    /* what forbids a run is looked at in one step with beginning it */
                do
                :: p < PAGES -> won[p] = false; win(p, won[p]); atomic { any = any || won[p]; p++ }
                :: else -> break
                od;
                if
                :: any -> dead++; goto gone             /* stopped, killed, or hung in the call */
                :: !any -> goto nothing
                :: any
                fi;
                failed = false;
#ifdef BREAK_ENDS_BEFORE
                p = 0;
                do
                :: p < PAGES -> if :: won[p] -> state[p] = RECYCLED :: else fi; p++
                :: else -> break
                od;
#endif
                if
                :: failed = true                        /* the call refuses: nothing has changed */
                :: true ->
                        atomic {
                                p = 0;
                                do
                                :: p < PAGES -> if :: won[p] -> content[p] = NOTHING :: else fi; p++
                                :: else -> break
                                od;
                                p = 0
                        }
                fi;
                p = 0;
                do
                :: p < PAGES ->
                        if
                        :: won[p] ->
                                assert(table);
#ifdef BREAK_KEEPS_WHAT_FAILED
                                if :: !failed -> state[p] = RECYCLED :: else fi
#else
#ifdef BREAK_RECYCLED_THOUGH_FAILED
                                state[p] = RECYCLED
#else
                                if :: failed -> state[p] = FREE :: else -> state[p] = RECYCLED fi
#endif
                                won[p] = false
#endif
                        :: else
                        fi;
                        p++
                :: else -> break
                od;
nothing:        assert(!won[0] && !won[1]);
                atomic { any = false; failed = false; p = 0; inside-- }
        od;
gone:   skip
}

#ifdef EVENTS
/*
 * Once, at any time: the guest takes the table back, and the answer comes when no thread that lives is at work (a dead one
 * keeps the table); or it is copied while it runs, then stopped, and goes on elsewhere.
 */
active proctype event()
{
        byte p;

        if
        :: dead > 0
        :: guests == 0
        :: atomic { (table && NONE_INSIDE) -> table = false };
#ifndef BREAK_STILL_KNOWN
                known = false;
#endif
                if
                :: on[0] = false; on[1] = false
                :: on[1] = false; on[0] = false
                fi;
                atomic { state[0] = USED; state[1] = USED }
        :: copying = true;
                if
                :: NONE_BEFORE -> /* copying begins when no thread is between winning a page and ending it */
                        do
                        :: p < PAGES -> atomic { copied[p] = content[p]; dirty[p] = false; p++ }
                        :: else -> break
                        od;
                        /* The guest stands still. What it wrote since is copied again; of what was dropped nobody knows. */
                        atomic {
                                p = 0;
                                do
                                :: p < PAGES ->
                                        if :: dirty[p] -> copied[p] = content[p] :: else fi;
                                        assert(state[p] != RECYCLED && state[p] != ZERO || copied[p] == NOTHING);
                                        assert(state[p] != BUSY);
                                        p++
                                :: else -> break
                                od;
                                copying = false
                        }
                :: dead > 0
                fi
        fi
}

#endif

init
{
        atomic {
                listed[0] = true; state[0] = FREE; content[0] = LEFT;
                listed[1] = true; state[1] = FREE; content[1] = LEFT
        }
}

ltl ended { [] ((state[0] == BUSY && dead == 0) -> <> (state[0] != BUSY || dead > 0)) }
