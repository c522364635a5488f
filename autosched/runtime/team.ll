; The team of threads that runs parallel loops. `team.py` says how, and puts numbers in place of names in capitals.

; `state` is what threads agree on: number of the loop << 32 | places still open << 16 | threads at work.
; A place is taken by exchanging the whole of it, so that one of an earlier loop is never taken.
@state = global i64 0
@function = global ptr null
@data = global ptr null
@size = global i64 0
@busy = global i32 0
@created = global i64 0
@sleepers = global i64 0
@waits = global i64 0
@missed = global i64 0
@given = global i64 0
@resting = global i64 0
@until = global i64 0
@robbed = global i32 0
@long = global i32 0
@core = global i32 -1
@key = global i32 0
@mutex = global [128 x i8] zeroinitializer, align 16
@work = global [128 x i8] zeroinitializer, align 16
@done = global [128 x i8] zeroinitializer, align 16

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_key_create(ptr, ptr)
declare i32 @pthread_setspecific(i32, ptr)
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @usleep(i32)
declare i32 @sched_getcpu()

; No threads yet, and nobody at work. Also what a forked child begins with.
define void @team_reset() {
  %a = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr @work, ptr null)
  %c = call i32 @pthread_cond_init(ptr @done, ptr null)
  store i64 0, ptr @state
  store i32 0, ptr @busy
  store i64 0, ptr @created
  store i64 0, ptr @sleepers
  store i64 0, ptr @waits
  store i64 0, ptr @resting
  store i32 0, ptr @robbed
  ret void
}

; The moment, by the wall's clock, at which all rests of threads are over that have begun so far.
define i64 @team_rests_until() {
  %until = load atomic i64, ptr @until monotonic, align 8
  ret i64 %until
}

define i32 @team_begin() {
  call void @team_reset()
  %failed = call i32 @pthread_key_create(ptr @key, ptr null)
  ret i32 %failed
}

define i32 @omp_get_thread_num() {
  %key = load i32, ptr @key
  %mine = call ptr @pthread_getspecific(i32 %key)
  %wide = ptrtoint ptr %mine to i64
  %number = trunc i64 %wide to i32
  ret i32 %number
}

define i32 @omp_get_max_threads() {
  ret i32 $CORES
}

; Run function(data) as the thread of this number, then be who one was.
define internal void @run_as(ptr %function, ptr %data, i64 %number) {
  %key = load i32, ptr @key
  %before = call ptr @pthread_getspecific(i32 %key)
  %mine = inttoptr i64 %number to ptr
  %a = call i32 @pthread_setspecific(i32 %key, ptr %mine)
  call void %function(ptr %data)
  %b = call i32 @pthread_setspecific(i32 %key, ptr %before)
  ret void
}

; Nanoseconds of a clock: 1 is the wall's, 2 and 3 what this process and this thread have had of cores.
define internal i64 @clock(i32 %which) {
  %time = alloca [2 x i64]
  %failed = call i32 @clock_gettime(i32 %which, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %both = add i64 %whole, %rest
  ret i64 %both
}

define internal ptr @worker(ptr %nothing) {
begin:  ; what a thread remembers: when it last looked at the clocks, how far they were apart, its last rest and its end
  %checked = alloca i64
  %lag = alloca i64
  %rest = alloca i64
  %rested = alloca i64
  %process = alloca i64
  %loss = alloca i64
  store i64 0, ptr %loss
  store i64 $MIN_REST, ptr %rest
  store i64 0, ptr %rested
  br label %fresh

fresh:  ; what went by while it slept does not count
  %f1 = call i64 @clock(i32 1)
  %f2 = call i64 @clock(i32 3)
  %f3 = sub i64 %f1, %f2
  store i64 %f1, ptr %checked
  store i64 %f3, ptr %lag
  %f4 = call i64 @clock(i32 2)
  store i64 %f4, ptr %process
  br label %look

look:
  %looked = phi i64 [ 0, %fresh ], [ %looked.next, %pause ], [ 0, %try ], [ 0, %left ], [ 0, %compare ]
  %now = load atomic i64, ptr @state acquire, align 8
  %open = and i64 %now, 4294901760
  %is.open = icmp ne i64 %open, 0
  br i1 %is.open, label %try, label %later
later:
  %looked.next = add i64 %looked, 1
  %enough = icmp eq i64 %looked.next, $LOOKS
  br i1 %enough, label %sleep, label %pause
pause:
  call void asm sideeffect "$PAUSE", ""()
  br label %look

try:  ; one place less, one thread more
  %taken = sub i64 %now, 65535
  %exchange = cmpxchg ptr @state, i64 %now, i64 %taken acq_rel acquire
  %joined = extractvalue { i64, i1 } %exchange, 1
  br i1 %joined, label %join, label %look
join:
  %core = call i32 @sched_getcpu()
  store atomic i32 %core, ptr @core monotonic, align 4
  %places = lshr i64 %open, 16
  %size = load i64, ptr @size
  %number = sub i64 %size, %places
  %function = load ptr, ptr @function
  %data = load ptr, ptr @data
  call void @run_as(ptr %function, ptr %data, i64 %number)
  %before = atomicrmw sub ptr @state, i64 1 seq_cst
  %others = and i64 %before, 65535
  %last = icmp eq i64 %others, 1
  br i1 %last, label %tell, label %left
tell:
  %waits = load atomic i64, ptr @waits seq_cst, align 8
  %waited = icmp ne i64 %waits, 0
  br i1 %waited, label %wake, label %left
wake:
  %w1 = call i32 @pthread_mutex_lock(ptr @mutex)
  %w2 = call i32 @pthread_cond_signal(ptr @done)
  %w3 = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %left
left:
  %now.wall = call i64 @clock(i32 1)
  %then.wall = load i64, ptr %checked
  %passed = sub i64 %now.wall, %then.wall
  %due = icmp ugt i64 %passed, $STOLEN
  br i1 %due, label %compare, label %look

compare:  ; others have had this thread's core, or the caller's
  %now.own = call i64 @clock(i32 3)
  %now.lag = sub i64 %now.wall, %now.own
  %then.lag = load i64, ptr %lag
  store i64 %now.wall, ptr %checked
  store i64 %now.lag, ptr %lag
  %now.process = call i64 @clock(i32 2)
  %then.process = load i64, ptr %process
  store i64 %now.process, ptr %process
  %stolen = sub i64 %now.lag, %then.lag
  %half = lshr i64 %stolen, 1
  %used = sub i64 %now.process, %then.process
  %team = load i64, ptr @size
  %most.used = mul i64 %team, %passed
  %unused = sub i64 %most.used, %used
  %outside = icmp sgt i64 %unused, %half
  %counts = select i1 %outside, i64 %stolen, i64 0
  %loss.before = load i64, ptr %loss
  %loss.more = add i64 %loss.before, %counts
  %allowed = lshr i64 %passed, 3
  %loss.now = sub i64 %loss.more, %allowed
  %is.some = icmp sgt i64 %loss.now, 0
  %loss.kept = select i1 %is.some, i64 %loss.now, i64 0
  store i64 %loss.kept, ptr %loss
  %much = icmp sgt i64 %loss.kept, $MOST_LOSS
  %caller.robbed = load atomic i32, ptr @robbed monotonic, align 4
  %caller.is.robbed = icmp ne i32 %caller.robbed, 0
  %yields = or i1 %much, %caller.is.robbed
  br i1 %yields, label %yield, label %look
yield:  ; the longer, the sooner it happens again
  store atomic i32 0, ptr @robbed monotonic, align 4
  %end.before = load i64, ptr %rested
  %since.rest = sub i64 %now.wall, %end.before
  %again = icmp ult i64 %since.rest, $MAX_REST
  %rest.before = load i64, ptr %rest
  %twice = shl i64 %rest.before, 1
  %is.most = icmp ugt i64 %twice, $MAX_REST
  %most = select i1 %is.most, i64 $MAX_REST, i64 %twice
  %rest.now = select i1 %again, i64 %most, i64 $MIN_REST
  store i64 %rest.now, ptr %rest
  %end = add i64 %now.wall, %rest.now
  %r0 = atomicrmw max ptr @until, i64 %end monotonic
  %r1 = atomicrmw add ptr @resting, i64 1 seq_cst
  %micro = udiv i64 %rest.now, 1000
  %micro.narrow = trunc i64 %micro to i32
  %r2 = call i32 @usleep(i32 %micro.narrow)
  %r3 = atomicrmw sub ptr @resting, i64 1 seq_cst
  %r4 = call i64 @clock(i32 1)
  store i64 %r4, ptr %rested
  store i64 0, ptr %loss
  br label %fresh

sleep:  ; whoever opens a loop sees either a sleeper or, after that, nobody who could miss it
  %s1 = call i32 @pthread_mutex_lock(ptr @mutex)
  %s2 = atomicrmw add ptr @sleepers, i64 1 seq_cst
  br label %asleep
asleep:
  %then = load atomic i64, ptr @state seq_cst, align 8
  %then.open = and i64 %then, 4294901760
  %none = icmp eq i64 %then.open, 0
  br i1 %none, label %doze, label %awake
doze:
  %s3 = call i32 @pthread_cond_wait(ptr @work, ptr @mutex)
  br label %asleep
awake:
  %s4 = atomicrmw sub ptr @sleepers, i64 1 seq_cst
  %s5 = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %fresh
}

define void @GOMP_parallel(ptr %function, ptr %data, i32 %threads, i32 %flags) {
  %thread = alloca ptr
  %several = icmp ugt i32 %threads, 1
  br i1 %several, label %ask, label %alone
ask:
  %exchange = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %exchange, 1
  br i1 %free, label %gather, label %alone
alone:
  call void @run_as(ptr %function, ptr %data, i64 0)
  ret void

gather:  ; as many threads as were ever asked for; where no more can be had, those that there are
  %size = zext i32 %threads to i64
  %places = sub i64 %size, 1
  %created = load i64, ptr @created
  %lacks = icmp ult i64 %created, %places
  br i1 %lacks, label %create, label %open
create:
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr null)
  %well = icmp eq i32 %failed, 0
  br i1 %well, label %count, label %open
count:
  %handle = load ptr, ptr %thread
  %c1 = call i32 @pthread_detach(ptr %handle)
  %more = add i64 %created, 1
  store i64 %more, ptr @created
  br label %gather

open:
  store ptr %function, ptr @function
  store ptr %data, ptr @data
  store i64 %size, ptr @size
  %old = load atomic i64, ptr @state monotonic, align 8
  %loop = lshr i64 %old, 32
  %loop.next = add i64 %loop, 1
  %loop.at = shl i64 %loop.next, 32
  %places.at = shl i64 %places, 16
  %new = or i64 %loop.at, %places.at
  store atomic i64 %new, ptr @state seq_cst, align 8
  %sleepers = load atomic i64, ptr @sleepers seq_cst, align 8
  %asleep = icmp ne i64 %sleepers, 0
  br i1 %asleep, label %wake, label %run
wake:
  %w1 = call i32 @pthread_mutex_lock(ptr @mutex)
  %w2 = call i32 @pthread_cond_broadcast(ptr @work)
  %w3 = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %run
run:
  %b1 = call i64 @clock(i32 1)
  %was.long = load i32, ptr @long
  %is.watched = icmp ne i32 %was.long, 0
  br i1 %is.watched, label %watch, label %work
watch:
  %b2 = call i64 @clock(i32 3)
  br label %work
work:
  %own.begin = phi i64 [ 0, %run ], [ %b2, %watch ]
  call void @run_as(ptr %function, ptr %data, i64 0)
  %e1 = call i64 @clock(i32 1)
  %wall = sub i64 %e1, %b1
  %is.long = icmp ugt i64 %wall, $STOLEN
  %is.long.wide = zext i1 %is.long to i32
  store i32 %is.long.wide, ptr @long
  %compares = and i1 %is.long, %is.watched
  br i1 %compares, label %compare.own, label %close
compare.own:  ; is the caller robbed of its core?
  %e2 = call i64 @clock(i32 3)
  %own = sub i64 %e2, %own.begin
  %stolen = sub i64 %wall, %own
  %much = icmp sgt i64 %stolen, $STOLEN
  br i1 %much, label %rob, label %close
rob:
  store atomic i32 1, ptr @robbed monotonic, align 4
  br label %close
close:
  %closed = atomicrmw and ptr @state, i64 -4294901761 seq_cst
  %left = and i64 %closed, 4294901760
  %nobody = icmp eq i64 %left, %places.at
  br i1 %nobody, label %missed, label %together
together:  ; two threads on one core at a time are none the faster
  store i64 0, ptr @missed
  %theirs = load atomic i32, ptr @core monotonic, align 4
  %mine = call i32 @sched_getcpu()
  %shared = icmp eq i32 %theirs, %mine
  br i1 %shared, label %give, label %check

missed:  ; for how long has nobody come, of those who could?
  %resting = load atomic i64, ptr @resting monotonic, align 8
  %all.rest = icmp uge i64 %resting, %created
  br i1 %all.rest, label %finish, label %ask.since
ask.since:
  %since = load i64, ptr @missed
  %first = icmp eq i64 %since, 0
  br i1 %first, label %note, label %compare
note:
  store i64 %e1, ptr @missed
  br label %finish
compare:
  %lasted = sub i64 %e1, %since
  %long.enough = icmp ugt i64 %lasted, $PATIENCE
  br i1 %long.enough, label %give, label %finish
give:  ; perhaps they wait for this core: whoever sleeps is woken on another
  %given = load i64, ptr @given
  %since.given = sub i64 %e1, %given
  %soon = icmp ult i64 %since.given, $PATIENCE
  br i1 %soon, label %check, label %do.give
do.give:
  store i64 %e1, ptr @given
  %t4 = call i32 @usleep(i32 $GIFT)
  store i64 0, ptr @missed
  br label %check

check:
  br label %look
look:
  %looked = phi i64 [ 0, %check ], [ %looked.next, %pause ]
  %now = load atomic i64, ptr @state acquire, align 8
  %working = and i64 %now, 65535
  %idle = icmp eq i64 %working, 0
  br i1 %idle, label %finish, label %later
later:
  %looked.next = add i64 %looked, 1
  %enough = icmp eq i64 %looked.next, $CHECKS
  br i1 %enough, label %sleep, label %pause
pause:
  call void asm sideeffect "$PAUSE", ""()
  br label %look
sleep:
  %s1 = call i32 @pthread_mutex_lock(ptr @mutex)
  store atomic i64 1, ptr @waits seq_cst, align 8
  br label %still
still:
  %then = load atomic i64, ptr @state seq_cst, align 8
  %then.working = and i64 %then, 65535
  %none = icmp eq i64 %then.working, 0
  br i1 %none, label %awake, label %doze
doze:
  %s2 = call i32 @pthread_cond_wait(ptr @done, ptr @mutex)
  br label %still
awake:
  store atomic i64 0, ptr @waits seq_cst, align 8
  %s3 = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %finish
finish:
  store atomic i32 0, ptr @busy release, align 4
  ret void
}
