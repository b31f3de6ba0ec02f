#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Hints: each is made to appear, and the line that it tells is run as it stands.

# shellcheck disable=SC2016,SC2154	# lines are evaluated later; helpers.bash assigns $stderr

load helpers

ROOT=$BATS_TEST_DIRNAME/..

setup() {
	common_setup
	need_bpf
	need_tool jq
	LIB=$(realpath "$FIX/libfix.so")
	CALL=$FIX/call
}

teardown() {
	"$FUNCSNOOP" detach --all >/dev/null 2>&1 || true
	common_teardown
}

# Hints use this name.
funcsnoop() {
	fsn "$@"
}

# The hint of a command that ends with STATUS matches REGEX; by SED it becomes the line that is run.
follow() { # STATUS REGEX SED COMMAND...
	local hint line

	fsn -s "$1" "${@:4}"
	hint=$(sed -n 's/^hint: //p' <<<"$stderr")
	[[ $hint =~ $2 ]] || differs "hint" "$2" "$hint"
	line=$(sed -E "$3" <<<"$hint")
	[[ $line != "$hint" ]] || fail "no line in: $hint"
	eval "$line"
}

# The first command in quotes.
QUOTED="s/^[^']*'(funcsnoop [^']*)'.*/\\1/"

# --- all hints -----------------------------------------------------------------------------------

# HINT|STATE|TEST: each hint of the sources verbatim, the state in which it is printed, and the
# test (of this file, or FILE: TEST) that creates this state and follows the hint. '-: REASON'
# instead of a test: this test machine lacks something.
hint_table() {
	cat <<-'END'
		'funcsnoop list functions GROUP' has the probed functions of a group|list probes|probes and rates that other tracers have are answered
		--overhead limits nothing here, only functions of programs and libraries that a pattern or a preset selects|--overhead of system calls or named functions|18-overhead: overhead: a limit that has nothing to limit says so
		--fail-if '%s' does not judge '%s': it has no %s|a condition on a time, of functions that are only counted|70-stats-views: stats: --fail-if notes functions that were called whose times are not known, once
		--fail-if '%s' does not judge '%s' and %zu more: they have no %s|a condition on a time, of functions that are only counted|70-stats-views: stats: --fail-if notes functions that were called whose times are not known, once
		use --by comm,stack, or --by stack with --pid|processes and stacks|26-keys: keys: an unknown one is answered with those that there are
		'JS:*' is optimized code and can contain functions that V8 has inlined; 'node --no-turbo-inlining' calls them|a profile of node with --perf-basic-prof|27-lazy: stacks: a remark says that optimized JavaScript contains inlined functions
		most callers are functions of Python's interpreter: --by stack names lines of the program|a table by caller of functions of Python|26-callers: callers: a remark points from an interpreter's functions to stacks
		to time one call of N: --sample 1/N|a rate of samples for calls|probes and rates that other tracers have are answered
		TOTAL of '%s' has the time of its nested calls at every level; outer_ns of --json has the outermost alone|a recursive function in a table|79-times: times: recursion is in outer_ns once, and in total_ns at each level
		--with split is without effect: goroutines have no CPU times, threads have|--with split of Go functions that are matched by goroutine|25-go: go: functions that call nothing have neither self nor CPU times
		%s may be too low: the compiler has split inlined code ('funcsnoop list functions %s' shows whose)|an inlined function whose code was split|13-inlined: inlined: calls are those that the program counts, with all links, in C and C++
		preset '%s' is a selection, %zu more function%s; for all: funcsnoop run '%s' --lib %s|a preset with "selection_of"|a preset that is a selection names the line that has all functions
		%s is stripped and has no build id: use an unstripped build of it, or 0xADDR, the address of a function|a stripped file without build id|a stripped library is probed by an unstripped build, or by an address
		%s is stripped: its -dbgsym or -dbg package has the names, or 'debuginfod-find debuginfo %s' fetches them; 0xADDR needs none|a stripped file|13-symbols: symbols: a file from debuginfod-find names the functions of a stripped file
		lines are in the debug information of -g, or of a -dbgsym or -dbg package|SOURCE:LINE without debug information|a line of a source file needs debug information
		use --pid without + to probe the process alone; --force follows children anyway|--pid PID+ with more than 64 other processes that map the file|children of a process that shares its file with many
		%s: %zu without times; 'funcsnoop list functions %s' says why\n|functions that are only counted|functions without times have their reasons in the list that is named
		%s not timed ('funcsnoop list functions %s' shows whose); --probe exit=return would time them, where that is safe|calls that leave by a jump|50-engine: stats: untracked tail calls have no duration, and the table says why
		%zu name%s, such as '%s', %s only imported: --lib %s|--lib with a glob of imported names|functions that are only imported are found where the hint says
		%zu name%s, such as '%s', %s only imported: probe the library that defines %s|the library of imported names is not installed|imported names of a library that is not there
		%zu name%s, such as '%s', %s only imported: use '%s:%s'|LIB:glob of imported names|a glob of imported names is asked of the library that has them
		%zu process%s could not be examined: needs CAP_SYS_PTRACE%s|an unknown library, unprivileged|another user's process
		'%s' is not a document of 'funcsnoop stats --json'|(an error) --diff with another file|a document to compare with is written by the command that is named
		'%s': %s; declare "args" in a configuration, or use arg1 to arg%d|--if with a name, without debug information|arguments without a type are declared, or numbered
		'bpftool -f link show id %u' shows the process or pin; they count until it is gone|detach while another process or pin holds a link|a link that is held is shown by bpftool as the hint says
		'funcsnoop help attach' shows how to attach a group|stream without a group|a stream without a group names a command that says how to attach one
		'funcsnoop list functions %s' shows them|stream -f with an unknown function|streams are limited by open files, and by places
		'funcsnoop list presets' shows them; a FUNCTION comes after the name of a group, such as 'g %s'|an unknown preset, with --lib|a word that is no preset comes after the name of a group
		'funcsnoop list presets' shows them; a FUNCTION is written with its library: '%sLIB:%s'|an unknown preset|a system call without prefix, and a FUNCTION without a group
		'funcsnoop list' shows what is attached|an unknown group|'list' is suggested for a group that is not attached
		'funcsnoop stats --json -o FILE' writes one|--diff with another file|a document to compare with is written by the command that is named
		'stats --by %s' needs no key; use 'arg:%s' for an argument of that name|--key process, function or library|words of --by that are no key of --key
		--share with an owner other than yourself and your groups needs CAP_CHOWN|--share without CAP_CHOWN|the capability that is named is the one that lacks
		--by stack needs the functions that launch kernels: name libcuda.so.1 with --lib|gpu:kernels --by stack without libcuda.so.1|a program without its library for GPUs is given the path
		BPFFS_HINT_READERS|a group of root, read by another user|readers and writers of a group
		BPFFS_HINT_WRITERS|a group of root, changed by another user|readers and writers of a group
		a FUNCTION comes after the name of a group: 'g %s'|attach LIB:FUNCTION without a group|a system call without prefix, and a FUNCTION without a group
		a duration is an option of 'funcsnoop run': -d %s|LIB:FUNCTION SECONDS|notation that is no FUNCTION here is answered with one
		a command was killed while it changed probes; each costs a trap at every call until the process exits|orphaned breakpoints, without CAP_SYS_ADMIN|42-ownerless: orphans: breakpoints that cannot be removed are reported with their processes
		a process may open %llu files ('ulimit -Hn'): stream fewer groups|RLIMIT_NOFILE of 22|streams are limited by open files, and by places
		arguments that are not declared in a configuration are arg1 to arg%d|--if with a name that no debug information has|an argument without a name is called by its number
		attach the group again with --replace --with memory --by %s|list allocations --by stack, or caller|allocations by stack are of groups that are attached with stacks
		attach the group again with --replace --share 0644,all to share them|stats --slow by another user|readers and writers of a group
		attach the group again with --replace --share 0644 to share its numbers|serve of a group without --mode|a group that serve does not show is shared as the hint says
		attach the group again with --replace --by stack|stats --by stack without stacks|a group without stacks gets them as the hint says
		attach the group again with --replace and the other --pid|set --pid of a group with links of processes|--pid of a group whose probes are in processes of --pid
		addresses are those that nm and objdump print, not those in a process|0xADDR outside the code|a function that is not at an address is found at the one around it
		attaching needs %s%s|feature without CAP_BPF or CAP_PERFMON|17-privileges: privileges: the hint names the missing capability
		attaching needs capabilities of the host: those of a container's user namespace are not enough|feature in a user namespace|a user namespace has no capabilities of the host
		before Linux 5.19 reading needs CAP_BPF, or kernel.unprivileged_bpf_disabled=0|a reader without CAP_BPF|-: kernels before 5.19
		calls are timed by probes on ret instructions here; '--probe exit=return' can kill processes|feature on a kernel whose return probes are unsafe|feature's hint of unsafe return probes
		check what it contains, then run 'chmod go-w %s'|a directory in bpffs that others can write|a directory in bpffs that others can write, or that another user made
		choose processes with --pid, or name fewer FUNCTIONs; --force attaches anyway|processes times functions over 32000|many functions in many processes
		choose processes with --pid, or name fewer of them; --force attaches anyway|very many tracepoints of all processes|very many tracepoints of all processes need --pid or --force
		declare it: "types": { "%s": { "base": "unsigned int" } }|a configuration with an unknown type|a type that a configuration lacks is declared as the hint says
		did you mean %s|a version that the library lacks|a near name has the library or prefix by which it is found
		did you mean './%s'|the name of a file in the current directory|a library with a near name
		did you mean '%s:%s'|cpu:x|a near name has the library or prefix by which it is found
		did you mean '%ss:%s'|a system call without prefix|a system call without prefix, and a FUNCTION without a group
		did you mean 'k:%s'|p::NAME, or fentry:MODULE:NAME|a function of the kernel is named without its module
		did you mean 's:%s'|syscalls:sys_enter_NAME|notation that is no FUNCTION here is answered with one
		did you mean '%s%s'|a tracepoint without its category|a near name has the library or prefix by which it is found
		did you mean 't:%s:%s'|CATEGORY:EVENT without prefix|notation that is no FUNCTION here is answered with one
		each probe needs a file descriptor, of which there are at most %PRId64: raise 'ulimit -n'|feature where perf links are the best|-: kernels before 6.6
		group '%s' of %s inherits the declarations of that preset|a broken preset of the configuration's group|a broken preset of the same name is named by the configuration that uses it
		hint: 'funcsnoop help%s%s' shows the usage\n|wrong usage|wrong usage names a command that shows the usage
		; 'funcsnoop list inflight %s' shows %s\n|stats while calls are in progress|calls in flight are shown by the command that is named
		it is part of funcsnoop: name its path with --lib|gpu: without libfuncsnoop-gpu.so next to the program|a program without its library for GPUs is given the path
		its implementations have no names here: install the debug symbols of the library|an IFUNC of a stripped library|13-symbols: symbols: an IFUNC is refused, and a hint names its implementations or debug symbols
		leave out --probe link to use the best links that it has|--link of a kind that the kernel lacks|a link kind that the kernel lacks is left out
		name a mounted one, such as /sys/fs/bpf, or mount one on an empty directory|--bpffs with another directory|a directory that is no bpffs
		name it with --lib LIB, or in a configuration with the key "lib" or "libs"|a FUNCTION without a library|a system call without prefix, and a FUNCTION without a group
		name its library: '%s:LIB:%s'|uprobe:NAME|notation that is no FUNCTION here is answered with one
		mapped files have %s|an unknown provider of USDT probes of a process|USDT probes of running programs are listed
		name that library with --lib, or as %s:%s|an imported function|functions that are only imported are found where the hint says
		needs %s of the host, not of a container's user namespace|attach in a user namespace|a user namespace has no capabilities of the host
		needs %s%s|a capability is missing|the capability that is named is the one that lacks
		needs CAP_SYS_ADMIN%s, or a tracefs that root mounted: 'mount -t tracefs tracefs %s'|t: without a mounted tracefs|tracepoints need root, or a tracefs that is mounted
		needs root; try with sudo|another user's bpffs, unprivileged|without privilege, where no bpffs is mounted
		needs root; try with sudo, or name a mounted one with --bpffs|/sys/fs/bpf is not mounted, unprivileged|without privilege, where no bpffs is mounted
		no call of group '%s' is slow: 'funcsnoop set %s --slow DUR' sets the threshold|stream --slow without --slow|slow calls are remembered as the hint says
		no capability is missing: kernel lockdown, a seccomp filter or a security module forbids it|EPERM with all capabilities|a refusal with all capabilities is none of theirs
		only a directory of root or your own is used; remove it, or name another bpffs with --bpffs|a directory in bpffs of another user|a directory in bpffs that others can write, or that another user made
		only root and the owner of '%s' may|detach by another user|readers and writers of a group
		only root can read the kernel's tracepoints%s|t: with a tracefs of root's, unprivileged|tracepoints need root, or a tracefs that is mounted
		opening a deleted file needs root (CAP_SYS_ADMIN)|a deleted library, unprivileged|a deleted library is opened by root alone
		preset '%s' knows it: use '%s %s --with memory' instead of the group and FUNCTION|--memory of a glob of c:malloc*|memory of a function that a preset knows is followed with that preset
		presets cuda and cuda-driver have it, for the calls that launch kernels|gpu:kernels --key caller|keys that GPUs do not know are of launches
		probe its implementations: %s%s|an IFUNC|implementations of an IFUNC are named as they are probed
		read it with the version that attached it, or detach it|a group of another layout|a group of another layout is detached
		resetting also needs CAP_BPF|reset by the owner without CAP_BPF|an owner resets with CAP_BPF
		root can read which it can trace: /sys/kernel/tracing/available_filter_functions|kprobe.multi of a function that cannot be traced|-: CONFIG_FPROBE
		run 'funcsnoop %s'%s|a command of another tracer|58-habits: commands of other tracers: the line counts what it is for
		run 'funcsnoop run "%s%s"%s%s%s%s'|LIB:FUNCTION as a command|a FUNCTION or a program as a command
		run 'funcsnoop run %s'|a program as a command|a FUNCTION or a program as a command
		did you mean 'funcsnoop list targets LIB'?|-l|58-habits: options of other tracers: the error names what does the same
		run 'funcsnoop run cpu --sample %dhz'|profile:hz:N|notation that is no FUNCTION here is answered with one
		run 'mount -t bpf bpf %s'|--bpffs with an empty directory|a directory that is no bpffs
		run 'sudo mount -t bpf bpf %s'|feature where /sys/fs/bpf is not mounted, unprivileged|without privilege, where no bpffs is mounted
		run it in the host's pid namespace: 'nsenter -t 1 -p', or docker's --pid=host|--pid in another pid namespace|processes are chosen in the host's pid namespace
		session links need a kernel with CONFIG_DEBUG_INFO_BTF|feature without BTF|feature's hints of links, BTF and an own bpffs
		stacks end at %zu of the mapped files: %s%s; 'funcsnoop stats' counts them|--stacks with files without unwind tables|-: the line is that of every other test
		stop one; the place of a killed one is free after 5 s|more than 8 streams of a group|streams are limited by open files, and by places
		the JIT is off, which makes probes slow: run 'sysctl net.core.bpf_jit_enable=1'|feature without the JIT|feature's hint of the JIT makes it on
		the key of a group ends in _func_sym or _sym|a configuration with another key|a type that a configuration lacks is declared as the hint says
		the program has it linked in: --lib %s|a preset's library that is linked into the program|a library that is linked into the program
		this kernel has no links for probes: it needs CONFIG_UPROBES, CONFIG_BPF_EVENTS and 5.15 or later|feature without links|-: kernels without uprobes
		this kernel has perf links alone, which need CAP_SYS_ADMIN%s|feature without CAP_SYS_ADMIN|-: kernels before 6.6
		this kernel is older than Linux 5.15|attach|-: kernels before 5.15
		use '%s%s:*' for all functions of that file|run PROGRAM|all functions of a program are meant by the glob that is named
		use '%s:*' for all functions of that file|run ./PROGRAM|all functions of a program are meant by the glob that is named
		use '%s%s', the function around it, or '%s%s+0x%PRIx64' to count that instruction|0xADDR inside a function|a function that is not at an address is found at the one around it
		use 'gpu:kernels', 'gpu:copies', 'gpu:sets', 'gpu:graphs' or 'gpu:ranges'|gpu:x|activities of GPUs are named by those that there are
		use --by cgroup to distinguish them|w:run-queue --cgroup|waits in the run queue are broken down by cgroup, and not chosen
		use --by to break calls down by it|w:off-cpu --if|waits are broken down by keys, without conditions
		use --replace to replace it, or --name NAME to attach under another name|a group that is attached already|an attached group is replaced, or pinned under another name
		use --by stack, or 'arg:stack' for an argument of that name|--key stack|words of --by that are no key of --key
		%s waited since before the attach; 'funcsnoop stack %d' shows where|run --pid, with threads that sleep|84-run: run: says how many threads have waited since before the attach, and what shows where
		%s in no call that '%s' saw begin; 'funcsnoop stack %d' shows where|list inflight of a group with --pid|54-inflight: in flight: threads of --pid that wait in no call that was seen are counted
		use --by %s|run --by process with keys|words of --by that are no key of --key
		calls of %zu of the %zu functions are not broken down: they lack the arguments of --by and --sum%s|files --by bufsiz|26-keys: keys: a name that few functions have for an argument is answered with those of another
		use --by stack|attach --by caller of a system call|a system call has no caller, but a stack
		only calls of functions of programs and libraries have a known caller: --by stack instead|run --by caller of system calls|a system call has no caller, but a stack
		unknown option '-c'; did you mean 'funcsnoop %s'?|-c before a command|58-habits: options of other tracers: the error names what does the same
		unknown option '-e'; did you mean 'funcsnoop run %s%s'?|-e NAME before a command|58-habits: options of other tracers: the error names what does the same
		use 'arg:goroutine' for an argument of that name|--by goroutine without Go|a key of goroutines is for Go
		use preset locks or off-cpu|--by waker_stack of a function|a key of wakers' stacks is for waits
		use preset locks, or 'arg:lock' for an argument of that name|--by lock without futex(2)|a key of locks is for waits in futex
		use a bpffs of your own with --bpffs: PRIVILEGES in funcsnoop(8)|feature with capabilities, but no rights to pin|feature's hints of links, BTF and an own bpffs
		use a directory below '%s'|--cgroup with another directory|a cgroup is a directory of cgroup v2
		cgroup v2 is not mounted|--cgroup where it is not|a cgroup is a directory of cgroup v2
		use function, process, cgroup, library, or a key that the group was attached with (--by)|stats --by with an unknown word|words of --by that are no key of --key
		use preset cuda, cuda-driver, nccl, malloc or tensors, or "allocates" in a configuration: funcsnoop-config(5)|--memory without a function that allocates|memory without an allocating function is followed with a preset
		left out: %zu more mapped files of such names, as users map more than %d; use --pid or a path for them|a library of which another user maps many copies|66-hostile: hostile: very many mapped copies of a library do not prevent its tracing
		group '%s' does not follow memory: attach the group again with --replace --with memory|list allocations of another group|allocations by stack are of groups that are attached with stacks
		%llu blocks were not tracked: table full; attach the group again with --replace --limit allocations=N|a full table of blocks|a full table of blocks is made larger
		%s not in the live memory: table full; attach the group again with --replace --limit allocations=N|a full table of blocks|a full table of blocks is made larger
		%zu stale call%s hidden; --all shows %s|list inflight with stale calls|54-inflight: in flight: calls that longjmp has left are stale, and only shown with --all
		did you mean 'funcsnoop stack PID'?|list -p PID|58-habits: options of other tracers: the error names what does the same
		a command follows --: 'funcsnoop run%s'|run PRESET COMMAND without --|the command of a preset follows two dashes
		children of the command are not traced: %zu other processes map the same file and would pay for it; --force traces children|run COMMAND while very many map the file|children of a process that shares its file with many
		to follow children, %zu other process%s pay%s for breakpoints, too; use --without children to spare them|run COMMAND while others map the file|other processes are spared by run
		%s counted but not timed: on a fiber's or signal handler's stack, where return probes are unsafe; use --probe exit=ret to time them|return probes in fibers|53-hazards: hazards: a handler on another stack in a call with a return probe does no harm
		%s counted but not timed: the kernel tracks 64 nested calls with return probes; use --probe exit=ret to time them|return probes in deep recursion|deep recursions are timed with --exit ret
		functions of group '%s' are only counted: use --events entry for their calls|stream of a group with --count|80-stream: stream: functions that are only counted show entries
		%llu call%s lost: use a larger --limit buffer=SIZE, filters, or --overhead none|stream of very many calls|80-stream: stream: counts calls dropped because the reader is stopped
		'funcsnoop list targets "u:*"' shows those of running programs|an unknown provider of USDT probes|USDT probes of running programs are listed
		use a system call or a tracepoint: 'funcsnoop list targets "s:*" "t:*"'|k: where the kernel has no probes of its functions|functions of a kernel without kprobes and fentry
		%s not counted: the text that --if compares was not in memory|--if with text that is not in memory|24-filters: filters: calls whose text is not in memory are not counted, and stats reports them
		%s not in the stacks: too many rows (--limit rows=N), %llu of exited processes|stacks of more rows than there is room for|27-gdb: stacks: calls whose rows were evicted are in a note, in all formats
		%zu thread%s: 'funcsnoop run cpu -p %d -d 1 --by stack' shows where|stack of a thread that runs, without perf_event_open|31-stack: stack: a thread that runs where the CPU clock cannot be had is only named
		group '%s' was above its overhead of %g %%: not all calls of %zu function%s were timed; 'funcsnoop stats %s' names them|list of a group above its limit|18-overhead: overhead: load that begins after attach is counted exactly, and only a part of it timed
		to leave such functions out:%s --replace|stats of a group above its limit|18-overhead: overhead: load that begins after attach is counted exactly, and only a part of it timed
		with --pid give a path that /proc/%d/maps shows|--lib /proc/PID/exe with --pid|12-find: find: a deleted library is probed through its mapping, for each kind of link
		preset '%s': '--with memory' tracks live bytes; the overhead is not limited then|run malloc of all processes|29-memory-exit: memory: run tracks live bytes by default for a preset of allocators
		known are %s|--fail-if with an unknown figure|words of --fail-if are those that the hint lists
	END
}

# The hints in the sources: what err_hint() and hint() are given, other texts that name a command,
# and notes that name an option. Strings are joined, and constants replaced.
hints_in_sources() {
	local file

	while read -r file; do
		tr '\n\t' '  ' <"$file" >"$BATS_TEST_TMPDIR/source"
		grep -oP '\b((cmd_|report_)?note|NOTE)\([^"]*\K(?:"(?:[^"\\]|\\.)*"\s*)+(?=[,)])' "$BATS_TEST_TMPDIR/source" |
			grep -e '--[a-z]' | sed -E 's/" +"//g; s/^"//; s/" *$//'
		[[ $file != */health.c ]] || grep -oP '"\K(not )?counted[^"]*(?=")' "$file" |
			grep -e '--[a-z]' | sed 's/^/%s /'
		grep -oP <"$BATS_TEST_TMPDIR/source" \
			'\b(err_)?hint\(\s*[^",()]+,\s*\K(?:"(?:[^"\\]|\\.)*"|[A-Z][A-Z_0-9a-z]+|\s)+(?=[,)])|(?:"(?:[^"\\]|\\.)*"\s*)*"(?:[^"\\]|\\.)*'"'"'funcsnoop (?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*' |
			sed -E 's/\\"/\x01/g
				s/" *BPFFS_DEFAULT *"/\/sys\/fs\/bpf/g
				s/" *LAUNCH_LIB *"/libcuda.so.1/g
				s/" *([A-Z][A-Za-z0-9_]*) *"/\1/g
				s/" +"//g; s/^ *"//; s/" *$//; s/\x01/"/g; s/ +$//'
	done < <(find "$ROOT/cmd" "$ROOT/lib" -name '*.c') | grep -vxE '%s|%[.]255s|.*(Usage|Examples?):.*|.*(of --(if|by and --sum)|with --(no-nesting|without nesting) or --sample)'
}

@test "hint: each hint of the sources is in the table, with a test that does what it says" {
	local hint state test file

	assert_eq "$(hint_table | cut -d '|' -f 1 | sort -u)" "$(hints_in_sources | sort -u)" "hints"
	while IFS='|' read -r hint state test; do
		[[ $state ]] || fail "no state: $hint"
		[[ $test != -:* ]] || continue
		file=59-hints
		if [[ $test =~ ^([0-9]+-[a-z-]+):\ (.*) ]]; then
			file=${BASH_REMATCH[1]} test=${BASH_REMATCH[2]}
		else
			test="hint: $test"
		fi
		grep -qxF "@test \"$test\" {" "$BATS_TEST_DIRNAME/$file.bats" ||
			fail "no test '$test' in $file.bats, for: $hint"
	done < <(hint_table)
}

# --- commands -----------------------------------------------------------------------------------

@test "hint: wrong usage names a command that shows the usage" {
	follow 2 "^'funcsnoop help run' shows the usage$" "$QUOTED" run g f --lib "$LIB" --by process --no-processes
	assert_output_match '^Usage: funcsnoop run '
	follow 2 "^'funcsnoop help' shows the usage$" "$QUOTED" nosuch
	assert_output_match '^Usage: '
}

@test "hint: 'list' is suggested for a group that is not attached" {
	fsn attach here fix_add --lib "$LIB"
	follow 1 "^'funcsnoop list' shows what is attached$" "$QUOTED" stats nowhere
	assert_output_match '^here '
}

@test "hint: a stream without a group names a command that says how to attach one" {
	follow 1 "^'funcsnoop help attach' shows how" "$QUOTED" stream
	assert_output_match '^Usage: funcsnoop attach '
}

@test "hint: calls in flight are shown by the command that is named" {
	start_bg c "$CALL" --wait hang 1
	wait_ready c
	fsn attach g fix_hang --lib "$LIB"
	tell c
	poll_until calls_in_flight
	fsn stats g
	eval "$(sed -nE "s/^in flight: 1 call; '(funcsnoop list inflight g)' shows it$/\1/p" <<<"$output")"
	assert_output_match 'fix_hang'
	stop_bg c || true
}

calls_in_flight() {
	"$FUNCSNOOP" stats g --json | jq -e '.[0].functions[0].in_flight == 1' >/dev/null
}

@test "hint: run shows calls in flight without naming the group that it removes" {
	start_bg c "$CALL" --wait hang 1
	wait_ready c
	start_bg r "$FUNCSNOOP" run "$LIB:fix_hang" -p "$(bg_pid c)"
	poll_until grep -q 'attached to' "$(bg_err r)"
	tell c
	poll_until held_by_run
	stop_bg -INT r || true
	grep -qx 'in flight: 1 call: fix_hang 1' "$(bg_out r)" || fail "$(cat "$(bg_out r)")"
	! grep -q 'list inflight' "$(bg_out r)" "$(bg_err r)" || fail "names a group that is gone"
	stop_bg c || true
}

held_by_run() {
	"$FUNCSNOOP" stats --json | jq -e '.[0].functions[0].in_flight == 1' >/dev/null
}

@test "hint: functions without times have their reasons in the list that is named" {
	fsn attach g fix_add --lib "$LIB" --count
	eval "$(sed -nE "s/^g: 1 without times; '(funcsnoop list functions g)' says why$/\1/p" <<<"$output")"
	assert_output_match '^fix_add .*none'
}

@test "hint: a word that is no preset comes after the name of a group" {
	follow 1 "^'funcsnoop list presets' shows them; a FUNCTION comes after the name of a group, such as 'g fix_add'$" \
		"s/.*'(g fix_add)'$/funcsnoop attach \1 --lib $(sed 's/[/&]/\\&/g' <<<"$LIB")/" \
		attach fix_add --lib "$LIB"
	fsn list
	assert_output_match '^g '
	follow 1 "^'funcsnoop list presets'" "$QUOTED" attach fix_add --lib "$LIB"
	assert_output_match '^cuda '
}

@test "hint: a name that is near is found" {
	follow 1 "^did you mean 'fix_add'" "s/^did you mean '(fix_add)'.*/funcsnoop attach g \1 --lib \"\$LIB\"/" \
		attach g fix_adb --lib "$LIB"
	fsn list functions g
	assert_output_match '^fix_add '
	follow 1 "^did you mean 's:getppid'" "s/^did you mean '([^']*)'.*/funcsnoop attach h \1 --dry-run/" \
		attach h s:getppidx --dry-run
}

@test "hint: an option that is near is taken" {
	fsn -s 2 stats --srot total
	[[ $stderr =~ did\ you\ mean\ \'(--[a-z]+)\' ]] || fail "$stderr"
	fsn -s 0 stats "${BASH_REMATCH[1]}" total
}

@test "hint: all functions of a program are meant by the glob that is named" {
	follow 1 "^use '$CALL:\*' for all functions of that file$" \
		"s/^use ('.*') for .*$/funcsnoop attach g \1 --dry-run/" attach g "$CALL"
	assert_output_match ' main|^main '
	fsn -s 1 run bash -d 1
	assert_stderr_match "^hint: use 'bash:\*' for all functions of that file$"
	cp "$CALL" "$BATS_TEST_TMPDIR/hanger"
	fsn -s 1 attach g bash
	assert_stderr_match "^hint: use 'bash:\*' for all functions of that file$"
	start_bg c env LD_LIBRARY_PATH="${LIB%/*}" "$BATS_TEST_TMPDIR/hanger" --wait hang 1
	wait_ready c
	# A command would be a second one of that process.
	fsn -s 2 run "$BATS_TEST_TMPDIR/hanger" -p "$(bg_pid c)"
	assert_stderr_match "^funcsnoop run: no function of '.*/hanger' is named$"
	stop_bg c
}

@test "hint: functions that are only imported are found where the hint says" {
	follow 1 "^name that library with --lib, or as $LIB:fix_add$" \
		"s/^name that library with --lib, or as (.*)$/funcsnoop attach g \1/" \
		attach g fix_add --lib "$CALL"
	fsn detach g
	follow 1 "^[0-9]+ names, such as 'fix_recurse', are only imported: --lib $LIB$" \
		"s/^.*: (--lib .*)$/funcsnoop attach g 'fix_re*' \1/" attach g 'fix_re*' --lib "$CALL"
}

@test "hint: a stripped program is called stripped; no other library is suggested" {
	local bare=$BATS_TEST_TMPDIR/bare

	strip -o "$bare" "$CALL"
	fsn -s 1 attach g 'fix_*' --lib "$bare"
	assert_stderr_match "^hint: $bare is stripped"
	refute_stderr_match '--lib|only imported'
}

@test "hint: CAP_SYS_PTRACE is named only where it is missing" {
	fsn -s 1 attach g nosuchlibrary:fix_add
	refute_stderr_match CAP_SYS_PTRACE
	"$FUNCSNOOP" feature --json | jq -e . >/dev/null
}

@test "hint: an attached group is replaced, or pinned under another name" {
	local option

	fsn attach g fix_add --lib "$LIB"
	for option in --replace '--name h'; do
		fsn -s 1 attach g fix_add --lib "$LIB"
		assert_stderr_match "^hint: use --replace to replace it, or --name NAME to attach under another name$"
		# shellcheck disable=SC2086	# two words
		fsn attach g fix_add --lib "$LIB" $option
	done
	assert_eq "$(groups)" "g h"
}

@test "hint: a group without stacks gets them as the hint says" {
	fsn attach g fix_add --lib "$LIB"
	follow 2 "^attach the group again with --replace --by stack$" \
		's/^attach the group again with (.*)$/funcsnoop attach g fix_add --lib "$LIB" \1/' \
		stats g --by stack
	capture "$CALL" add 3
	fsn stats g --by stack
	assert_output_match 'fix_add +3 '
}

@test "hint: run records the data of its view, and suggests no option afterwards" {
	fsn run "$LIB:fix_add" --by stack -o "$BATS_TEST_TMPDIR/out" -- "$CALL" add 3
	grep -Eq '^100.0 +(.* > )?fix_add +3 ' "$BATS_TEST_TMPDIR/out" || fail "$(cat "$BATS_TEST_TMPDIR/out")"
	fsn run "$LIB:fix_add" --by comm -o "$BATS_TEST_TMPDIR/out" -- "$CALL" add 3
	grep -Eq '^fix_add +call +3 ' "$BATS_TEST_TMPDIR/out" || fail "$(cat "$BATS_TEST_TMPDIR/out")"
}

@test "hint: contradictions of run are found before the command is started" {
	local args ran=$BATS_TEST_TMPDIR/ran

	while read -ra args; do
		fsn -s 2 run "$LIB:fix_add" "${args[@]}" -- touch "$ran"
		[[ ! -e $ran ]] || fail "the command ran: ${args[*]}"
	done <<-END
		--by process --no-processes
		--by cgroup --no-processes
		--by stack --no-keys
		--by comm --no-keys
		--tree --no-nesting
		--tree --sample 2
		--hist --count
		--errors --count
		--by blocked-in --count
		--by nosuch
	END
	fsn -s 1 run "$LIB:fix_add" --diff "$BATS_TEST_TMPDIR/nowhere" -- touch "$ran"
	[[ ! -e $ran ]] || fail "the command ran"
}

@test "hint: an argument without a name is called by its number" {
	local bare=$BATS_TEST_TMPDIR/libbare.so

	objcopy --remove-section '.debug_*' "$LIB" "$bare"
	follow 2 "use arg1 to arg[68]$" \
		"s/.*use (arg1) to arg[68]$/funcsnoop attach g fix_add --lib \"\$bare\" --if '\1 > 0' --dry-run/" \
		attach g fix_add --lib "$bare" --if 'a > 0' --dry-run
}

@test "hint: memory of a function that a preset knows is followed with that preset" {
	follow 2 "^preset 'malloc' knows it: use 'malloc malloc --with memory' instead of the group and FUNCTION$" \
		"s/^.*: use '(malloc malloc --with memory)' .*/funcsnoop attach \1 --dry-run/" \
		attach g 'c:malloc*' --memory --dry-run
	assert_output_match '^malloc '
	assert_output_match '^free '
}

@test "hint: a document to compare with is written by the command that is named" {
	echo '{' >"$BATS_TEST_TMPDIR/bad"
	fsn attach g fix_add --lib "$LIB"
	follow 1 "^'funcsnoop stats --json -o FILE' writes one$" \
		"s|^'(funcsnoop stats --json -o )FILE'.*|\1$BATS_TEST_TMPDIR/good|" \
		stats g --diff "$BATS_TEST_TMPDIR/bad"
	fsn stats g --diff "$BATS_TEST_TMPDIR/good"
}

@test "hint: a directory without bpffs is mounted as the hint says" {
	local dir=$BATS_TEST_TMPDIR/bpf

	mkdir "$dir"
	follow 1 "^run 'mount -t bpf bpf $dir'$" "s/^run '(.*)'$/\1/" --bpffs "$dir" attach g fix_add --lib "$LIB"
	fsn --bpffs "$dir" attach g fix_add --lib "$LIB"
	fsn --bpffs "$dir" detach g
	umount "$dir"
}

@test "hint: slow calls are remembered as the hint says" {
	fsn attach g fix_add --lib "$LIB"
	start_bg s "$FUNCSNOOP" stream g --slow
	poll_until grep -q "funcsnoop set g --slow" "$(bg_err s)"
	eval "$(sed -nE "s/.*'(funcsnoop set g --slow) DUR' .*/\1 1ns/p" "$(bg_err s)")"
	fsn list functions g
	stop_bg s || true
}

# --- FUNCTIONs ----------------------------------------------------------------------------------

# The hint of attaching FUNCTION is MEANT, in quotes, which is then found.
meant() { # FUNCTION MEANT
	follow 1 "^did you mean '${2//[*?]/.}'( or .*)?$" "s/^did you mean '([^']*)'.*/funcsnoop attach g '\1' --dry-run/" \
		attach g "$1" --dry-run
}

@test "hint: a FUNCTION or a program as a command" {
	follow 2 "^run 'funcsnoop run \"$LIB:fix_add\"'$" "s,^run '(.*)'$,\1 -- $CALL add 7," "$LIB:fix_add"
	assert_stderr_match '^fix_add +7 '
	follow 2 "^run 'funcsnoop run $CALL'$" "s,^run '(.*)'$,\1 add 7," "$CALL"
	fsn -s 2 "$LIB:fix_add" -p $$ 1
	assert_stderr_match "^hint: run 'funcsnoop run \"$LIB:fix_add\" -p $$ -d 1'$"
}

@test "hint: probes and rates that other tracers have are answered" {
	fsn attach g "$LIB:fix_add"
	follow 1 "^'funcsnoop list functions GROUP' has" "s/^'(.*) GROUP'.*/\1 g/" list probes
	assert_output_match '^fix_add '
	follow 2 "^to time one call of N: --sample 1/N$" "s,.*(--sample) 1/N,fsn attach g $LIB:fix_add --replace \1 1/3," \
		attach g "$LIB:fix_add" --replace --sample 99hz
	fsn -s 2 attach g "$LIB:fix_add" --replace --sample 99hz
	assert_stderr_match "--sample 99hz is of CPU samples: 'fix_add' has calls$"
	fsn attach probes "$LIB:fix_add"
	fsn list probes
	assert_output_match '^probes '
}

@test "hint: stacks that run records are its table" {
	fsn run "$LIB:fix_add" --stacks all -- "$CALL" add 7
	assert_stderr_match '^SHARE +CALLED BY '
	assert_stderr_match '> fix_add +7 '
	fsn run "$LIB:fix_add" --stacks all --by process -- "$CALL" add 7
	refute_stderr_match 'CALLED BY'
}

@test "hint: a preset that is a selection names the line that has all functions" {
	mkdir -p "$XDG_CONFIG_HOME/funcsnoop/presets"
	echo "{ \"lib\": \"$LIB\", \"selection_of\": \"fix_a[dl]*\", \"few_sym\": {
		\"fix_add\": \"fix_add\", \"fix_ptr\": \"fix_ptr\" } }" >"$XDG_CONFIG_HOME/funcsnoop/presets/few.json"
	# Two names of one function are one, and those that the preset has are none.
	fsn run few -- "$CALL" add 7
	assert_stderr_match "^funcsnoop run: preset 'few' is a selection, 1 more function matches; for all: "
	eval "$(sed -nE "s,.* is a selection.*; for all: (funcsnoop .*),\1 -- $CALL add 7,p" <<<"$stderr")"
	assert_stderr_match '^fix_add +7 '
	refute_stderr_match "is a selection"
	fsn run few fix_ptr -- "$CALL" add 7
	refute_stderr_match "is a selection"
}

@test "hint: a near name has the library or prefix by which it is found" {
	meant "$LIB:fix_adb" "$LIB:fix_add"
	meant "uprobe:$LIB:fix_adb" "$LIB:fix_add"
	meant "$LIB:fix_ver@FIX_9" "$LIB:fix_ver@FIX_2"
	meant s:getppidx s:getppid
	meant w:off-cpux w:off-cpu
	meant "u:$FIX/events:tock" "u:$FIX/events:tick"
	need_tracefs
	meant t:sched:sched_swich t:sched:sched_switch
	meant rawtracepoint:sched_switch t:sched:sched_switch
	follow 1 "^use 'w:off-cpu' or 'w:run-queue'$" \
		"s/^use '(.*)' or .*/funcsnoop attach g \1 --dry-run/" attach g w:nothing --dry-run
	meant cpu:cycles cpu:samples
}

@test "hint: notation that is no FUNCTION here is answered with one" {
	need_tracefs
	meant sched:sched_switch t:sched:sched_switch
	meant syscalls:sys_enter_getppid s:getppid
	meant syscalls:sys_exit_getppid s:getppid
	follow 1 "^run 'funcsnoop run cpu --sample 49hz'$" "s/^run '(.*)'/\1 -d 0.2/" attach g profile:hz:49
	assert_output_match '^(SELF%|cpu-)'
	follow 1 "^a duration is an option of 'funcsnoop run': -d 1$" \
		"s,^.*: (-d 1)$,funcsnoop run $LIB:fix_add \1," run "$LIB:fix_add" 1
	fsn -s 1 run "$LIB:fix_add" -p $$ 1
	assert_stderr_match "^hint: a duration is an option of 'funcsnoop run': -d 1$"
	follow 1 "^name its library: 'uprobe:LIB:fix_add'$" \
		"s,^.*: '(.*)LIB(.*)',funcsnoop run '\1$LIB\2' -- $CALL add 5," run uprobe:fix_add
	assert_stderr_match '^fix_add +5 '
}

@test "hint: the command of a preset follows two dashes" {
	follow 1 "^a command follows --: " "$QUOTED" run syscalls true
	assert_stderr_match '^execve '
}

@test "hint: a function of the kernel is named without its module" {
	local said

	[[ -e /sys/kernel/btf/vmlinux ]] || skip "no BTF"
	for said in fentry:vmlinux:vfs_read p::vfs_read p:vfs_read; do
		fsn -s 1 attach g "$said" --dry-run
		assert_stderr_match "^hint: did you mean 'k:vfs_read'$"
	done
	fsn -s 1 attach g k:vfs_reax
	assert_stderr_match "^hint: did you mean 'k:vfs_read'"
	# A kernel may lack kernel probes, but the name is known in any case.
	fsn -s any attach g k:vfs_read --dry-run
	refute_stderr_match "no function"
	assert_output_match '^vfs_read '
}

@test "hint: the prefixes of bcc and bpftrace count what they count there" {
	local prefix

	for prefix in p r uprobe uretprobe; do
		fsn run "$prefix:$LIB:fix_add" -- "$CALL" add 7
		assert_stderr_match '^fix_add +7 '
	done
	for prefix in u usdt; do
		fsn attach "$prefix-g" "$prefix:$FIX/events:tick" --dry-run
	done
	for prefix in kprobe kretprobe fentry fexit kfunc kretfunc k; do
		fsn -s 1 attach g "$prefix:vfs_reax"
		assert_stderr_match "^funcsnoop attach: (no function 'vfs_reax' in the kernel's BTF|this kernel has no BTF)"
	done
}

@test "hint: a system call without prefix, and a FUNCTION without a group" {
	follow 1 "^did you mean 's:getppid'$" "s/^did you mean '(.*)'/funcsnoop run \1 -p \$\$ -d 0.1/" run getppid
	follow 1 "^did you mean 'g s:getppid'$" \
		"s/^did you mean '(.*)'/funcsnoop attach \1 --dry-run/" attach getppid
	follow 1 "^a FUNCTION comes after the name of a group: 'g $LIB:fix_add'$" \
		"s/^.*: '(.*)'/funcsnoop attach \1 --dry-run/" attach "$LIB:fix_add"
	follow 1 "a FUNCTION is written with its library: 'g LIB:fix_add'$" \
		"s,^.*: '(.*)LIB(.*)',funcsnoop attach \1$LIB\2 --dry-run," attach fix_add
	follow 1 "a FUNCTION is written with its library: 'LIB:fix_add'$" \
		"s,^.*: 'LIB(.*)',funcsnoop run $LIB\1 -- $CALL add 5," run fix_add
	assert_stderr_match '^fix_add +5 '
	follow 1 "^name it with --lib LIB, or in a configuration" \
		"s,^.*(--lib) LIB.*,funcsnoop attach g fix_add \1 $LIB --dry-run," attach g fix_add --dry-run
	cat >"$BATS_TEST_TMPDIR/c.json" <<-END
	{ "g_sym": { "plus": "fix_add" }, "lib": "$LIB" }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/c.json" --dry-run
}

@test "hint: a glob of imported names is asked of the library that has them" {
	follow 1 "^[0-9]+ names, such as 'fix_recurse', are only imported: use '$LIB:fix_re\*'$" \
		"s/^.*: use ('.*')$/funcsnoop attach g \1 --dry-run/" attach g "$CALL:fix_re*"
	assert_output_match '^fix_recurse '
}

@test "hint: implementations of an IFUNC are named as they are probed" {
	local libc

	copy_libc "$CALL" "$BATS_TEST_TMPDIR/copy"
	libc=$BATS_TEST_TMPDIR/copy/libc.so.6
	fsn -s 1 attach g "$libc:memcpy" --dry-run
	if [[ $stderr != *"probe its implementations"* ]]; then
		assert_stderr_match "^hint: its implementations have no names here: install the debug symbols of the library$"
		skip "libc.so.6 has no names of them"
	fi
	follow 1 "^probe its implementations: '" \
		"s/^[^']*('[^']*').*/funcsnoop attach g \1 --dry-run/" attach g "$libc:memcpy" --dry-run
	assert_output_match '^__memcpy_'
}

# --- libraries and files ------------------------------------------------------------------------

@test "hint: a library with a near name" {
	cp "$LIB" "$BATS_TEST_TMPDIR/libverynear.so"
	export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR
	follow 1 "^did you mean 'verynear'" \
		"s/^did you mean '([^']*)'.*/funcsnoop attach g fix_add --lib \1 --dry-run/" \
		attach g fix_add --lib verynaer --dry-run
	cp "$LIB" "$BATS_TEST_TMPDIR/verynaer"
	cd "$BATS_TEST_TMPDIR" || return
	follow 1 "^did you mean './verynaer'$" \
		"s/^did you mean '([^']*)'.*/funcsnoop attach g \1:fix_add --dry-run/" \
		attach g verynaer:fix_add --dry-run
}

@test "hint: a stripped library is probed by an unstripped build, or by an address" {
	local bare=$BATS_TEST_TMPDIR/libbare.so at

	objcopy --strip-all --remove-section=.note.gnu.build-id "$CALL" "$bare"
	fsn -s 1 attach g main --lib "$bare" --dry-run
	assert_stderr_match "^hint: $bare is stripped and has no build id: use an unstripped build of it, or 0xADDR, the address of a function$"
	at=$(nm "$CALL" | sed -n 's/^0*\([0-9a-f]*\) T main$/0x\1/p')
	fsn attach g "$at" --lib "$bare" --dry-run
	# By its build id, debug symbols are taken where packages put them.
	cp "$CALL" "$bare"
	objcopy --strip-all "$bare"
	if fsn -s any attach g main --lib "$bare" --dry-run && [[ $stderr == *debuginfod-find* ]]; then
		assert_stderr_match "or 'debuginfod-find debuginfo [0-9a-f]+' fetches them; 0xADDR needs none$"
	fi
}

@test "hint: a line of a source file needs debug information" {
	local prog=$BATS_TEST_TMPDIR/own

	need_tool cc
	echo 'int main(void) { return 0; }' >"$prog.c"
	cc -o "$prog" "$prog.c"
	follow 1 "^lines are in the debug information of -g, or of a -dbgsym or -dbg package$" \
		"s|.* (-g), .*|cc \1 -o $prog $prog.c|" attach g "$prog:own.c:1" --dry-run
	fsn attach g "$prog:own.c:1" --dry-run
	assert_output_match '^own.c:1 '
}

@test "hint: a function that is not at an address is found at the one around it" {
	local bare=$BATS_TEST_TMPDIR/bare at second

	strip -o "$bare" "$CALL"
	# The first instructions of main, as another program has them.
	{ read -r at && read -r second; } < <(objdump -d --disassemble=main "$CALL" |
		sed -En 's/^ +([0-9a-f]+):\t.*/0x\1/p')
	fsn -s 1 attach g "$bare:0x555555555000" --dry-run
	assert_stderr_match "no function '$bare:0x555555555000' in $bare: its code has no such address"
	assert_stderr_match "^hint: addresses are those that nm and objdump print, not those in a process$"
	follow 1 "^use '$bare:sub_${at#0x}', the" "s/^use ('[^']*').*/fsn attach g \1 --dry-run/" \
		attach g "$bare:$second" --dry-run
	assert_output_match "^sub_${at#0x} +$bare "
	follow 1 " or '$bare:sub_.*' to count that" "s/.* or ('[^']*').*/fsn attach g \1 --dry-run/" \
		attach g "$bare:$second" --dry-run
	assert_output_match "^sub_${at#0x}\+0x[0-9a-f]+ +$bare .* none "
}

@test "hint: a deleted library is opened by root alone" {
	local lib=$BATS_TEST_TMPDIR/libgone.so

	cp "$LIB" "$lib"
	chmod 755 "$BATS_TEST_TMPDIR" "${BATS_TEST_TMPDIR%/*}" "$BATS_RUN_TMPDIR"
	need_unprivileged "$lib"
	start_bg c setpriv --reuid 65534 --regid 65534 --clear-groups env LD_PRELOAD="$lib" \
		"$CALL" --wait add 7
	wait_ready c
	rm "$lib"
	as_nobody -s 1 attach g fix_add --lib gone --pid "$(bg_pid c)" --dry-run
	assert_stderr_match "^hint: opening a deleted file needs root \(CAP_SYS_ADMIN\)$"
	fsn attach g fix_add --lib gone --pid "$(bg_pid c)"
	tell c
	wait_bg c
	fsn stats g
	assert_output_match '^fix_add +7 '
}

# --- options ------------------------------------------------------------------------------------

@test "hint: a key of goroutines is for Go" {
	fsn -s 2 attach g fix_add --lib "$LIB" --by goroutine
	assert_stderr_match "--by 'goroutine': no function passes arguments in Go's registers$"
	assert_stderr_match "^hint: use 'arg:goroutine' for an argument of that name$"
}

@test "hint: a key of wakers' stacks is for waits" {
	follow 2 '^use preset locks or off-cpu$' \
		's/^use preset ([a-z]+) .*/funcsnoop attach g \1 --by waker_stack -p $$/' \
		attach g fix_add --lib "$LIB" --by waker_stack
	follow 2 '^use preset locks or off-cpu$' \
		's/^use preset ([a-z]+) .*/funcsnoop attach h \1 --by comm,waker -p $$/' \
		attach h fix_add --lib "$LIB" --by waker
}

@test "hint: a key of locks is for waits in futex" {
	fsn -s 2 attach g fix_add --lib "$LIB" --by lock
	assert_stderr_match "--by 'lock': no function is known to wait for locks$"
	assert_stderr_match "^hint: use preset locks, or 'arg:lock' for an argument of that name$"
	fsn attach locks --pid $$
	fsn stats locks --by lock
	fsn -s 2 attach g s:futex --by lock,caller
	assert_stderr_match "--by caller cannot be combined with '--by lock'$"
}

@test "hint: a system call has no caller, but a stack" {
	local f

	for f in u:"$FIX/events":tick off-cpu cpu; do
		fsn -s 2 attach g "$f" --by caller -p $$
		assert_stderr_match "--by 'caller': only calls of functions of programs and libraries have a known caller$"
	done
	follow 2 '^use --by stack$' "s,^use (.*),funcsnoop attach g s:write -p $$ \\1," \
		attach g s:write -p $$ --by caller
	for f in s:write syscalls t:raw_syscalls:sys_enter; do
		fsn run "$f" --by caller -- "$CALL" add 7
		assert_stderr_match '^funcsnoop run: only calls of functions of programs and libraries have a known caller: --by stack instead$'
		assert_stderr_match ' (write|sys_enter|main)'
	done
	fsn -s 2 run s:write --by comm,caller -- "$CALL" add 7
	fsn run "$LIB:fix_add" s:write --by caller -- "$CALL" --quiet add 7
	assert_stderr_match '^funcsnoop run: calls of 1 of the 2 functions are not broken down'
	assert_stderr_match '^fix_add +[^ ]+ +7 '
	refute_stderr_match '^write '
}

@test "hint: words of --by that are no key of --key" {
	fsn -s 2 attach g fix_add --lib "$LIB" --key stack
	assert_stderr_match "--by 'stack' is not known; use --by stack, or 'arg:stack' for an argument of that name$"
	fsn attach g fix_add --lib "$LIB" --stacks all
	capture "$CALL" add 3
	fsn stats g --by stack
	assert_output_match 'fix_add +3 '
	fsn -s 2 attach h fix_add --lib "$LIB" --key process
	assert_stderr_match "'stats --by process' needs no key; use 'arg:process' for an argument of that name$"
	fsn stats --by process g
	assert_output_match 'call.* 3 '
	follow 2 '^use --by comm,result$' \
		"s,^use (.*),funcsnoop run \$LIB:fix_add \1 -- \$CALL --quiet add 7," \
		run "$LIB:fix_add" --by process,comm,result -- "$CALL" --quiet add 7
	assert_stderr_match '^fix_add +call +'
	fsn -s 2 run "$LIB:fix_add" --by thread,process -- "$CALL" --quiet add 7
	assert_stderr_match ": --by 'process' cannot be combined with keys$"
	follow 2 "^use function, process, cgroup, library, or a key" \
		's/^use ([a-z]*),.*/funcsnoop stats g --by \1/' stats g --by nosuch
	follow 2 "^use function, process, cgroup, library, or a key" \
		's/^use [a-z]*, ([a-z]*),.*/funcsnoop stats g --by \1/' stats g --by nosuch
}

@test "hint: waits are broken down by keys, without conditions" {
	follow 1 "^use --by to break calls down by it$" \
		's/^use (--by) .*/funcsnoop attach g w:off-cpu \1 waker_tid -p $$/' \
		attach g w:off-cpu --if 'waker_tid > 1' -p $$
}

@test "hint: waits in the run queue are broken down by cgroup, and not chosen" {
	own_cgroup cgroup.procs "no cgroup v2"
	fsn -s 1 attach g w:run-queue --cgroup "$CGROUP"
	rmdir "$CGROUP"
	assert_stderr_match "^hint: use --by cgroup to distinguish them$"
	fsn attach g w:run-queue --key cgroup
}

@test "hint: a cgroup is a directory of cgroup v2" {
	local below

	own_cgroup cgroup.procs "no cgroup v2"
	fsn -s any attach g fix_add --lib "$LIB" --cgroup "$BATS_TEST_TMPDIR"
	rmdir "$CGROUP"
	below=$(sed -n "s/^hint: use a directory below '\(.*\)'$/\1/p" <<<"$stderr")
	[[ -n $below ]] || fail "$stderr"
	mkdir "$below/funcsnoop-hint-$$"
	fsn -s any attach g fix_add --lib "$LIB" --cgroup "$below/funcsnoop-hint-$$"
	rmdir "$below/funcsnoop-hint-$$"
	assert_eq "$status" 0
	own_namespace 1 "umount -l $below; "'exec "$@"' "$FUNCSNOOP" attach h fix_add --lib "$LIB" \
		--cgroup "$BATS_TEST_TMPDIR"
	assert_stderr_match "^hint: cgroup v2 is not mounted$"
}

@test "hint: very many tracepoints of all processes need --pid or --force" {
	local hint="^choose processes with --pid, or name fewer of them; --force attaches anyway$"

	# Detaching them takes the kernel 50 ms each.
	follow 1 "$hint" 's/^.*(--pid).*/funcsnoop attach g "t:syscalls:*" \1 $$ -n/' attach g 't:syscalls:*'
	follow 1 "$hint" 's/^.*(--force).*/funcsnoop attach g "t:syscalls:*" \1 -n/' run 't:syscalls:*'
}

# Alone: commands of other tests may look into the library at that moment, and map it, too.
# bats test_tags=alone
@test "hint: children of a process that shares its file with many" {
	local pids hint lib=$BATS_TEST_TMPDIR/libmany.so

	cp "$LIB" "$lib"
	start_many 66 "$lib" LD_PRELOAD="$lib"
	follow 1 "^use --pid without [+] to probe the process alone; --force follows children anyway$" \
		"s,.*,funcsnoop attach g fix_add --lib $lib --pid ${pids[0]}," \
		attach g fix_add --lib "$lib" --pid "${pids[0]}" --children
	fsn detach g
	fsn attach g fix_add --lib "$lib" --pid "${pids[0]}" --children --force
	fsn detach g
	fsn run "$lib:fix_add" -- sh -c "LD_PRELOAD=$lib '$CALL' add 2; exec env LD_PRELOAD=$lib '$CALL' add 7"
	hint=$(sed -n 's/.*children of the command are not traced: 66 other processes .*; \(--force\) traces children$/\1/p' <<<"$stderr")
	assert_stderr_match '^fix_add +7 '
	fsn run "$lib:fix_add" "$hint" -- sh -c "LD_PRELOAD=$lib '$CALL' add 2; exec env LD_PRELOAD=$lib '$CALL' add 7"
	assert_stderr_match '^fix_add +9 '
	kill "${pids[@]}"
}

# COUNT processes that map FILE, with VARIABLE=VALUE: pids[].
start_many() { # COUNT FILE VARIABLE=VALUE
	local i

	for ((i = 0; i < $1; i++)); do
		env "$3" sleep 300 </dev/null >/dev/null 2>&1 3>&- &
		pids[i]=$!
	done
	poll_until many_map "$1" "$2"
}

many_map() { # COUNT FILE
	local pid cnt=0

	for pid in "${pids[@]}"; do
		! grep -qF "$2" "/proc/$pid/maps" 2>/dev/null || cnt=$((cnt + 1))
	done
	((cnt == $1))
}

# Alone, as others may look into the library here, too: 33 were counted once.
# bats test_tags=alone
@test "hint: many functions in many processes" {
	local pids libc=$BATS_TEST_TMPDIR/copy/libc.so.6

	copy_libc "$(command -v sleep)" "${libc%/*}"
	start_many 30 "$libc" LD_LIBRARY_PATH="${libc%/*}"
	follow 1 "^choose processes with --pid, or name fewer FUNCTIONs; --force attaches anyway$" \
		"s,^choose.*(--pid).*,funcsnoop attach g 'get*' --lib $libc \1 ${pids[0]}," \
		attach g '*' --lib "$libc"
	fsn detach g
	fsn -s 1 attach g '*' --lib "$libc"
	assert_stderr_match "^funcsnoop attach: cannot attach group 'g': [0-9]+ functions in each of 30 processes would be probed$"
	fsn attach g getenv --lib "$libc"
	kill "${pids[@]}"
}

@test "hint: imported names of a library that is not there" {
	local dir=$BATS_TEST_TMPDIR/gone

	need_tool cc
	mkdir "$dir"
	echo 'int gone_one(void) { return 1; }' | cc -shared -fPIC -o "$dir/libgone.so" -x c -
	echo 'int gone_one(void); int main(void) { return gone_one(); }' |
		cc -o "$dir/main" -x c - -L"$dir" -lgone
	mv "$dir/libgone.so" "$dir/other.so"
	fsn -s 1 attach g 'gone_*' --lib "$dir/main" --dry-run
	assert_stderr_match "^hint: 1 name, such as 'gone_one', is only imported: probe the library that defines it$"
	fsn attach g 'gone_*' --lib "$dir/other.so" --dry-run
	assert_output_match '^gone_one '
}

@test "hint: a library that is linked into the program" {
	local presets=$XDG_CONFIG_HOME/funcsnoop/presets

	mkdir -p "$presets"
	echo '{ "mine_sym": { "plus": "fix_add" }, "lib": "libnowhere.so" }' >"$presets/mine.json"
	start_bg c "$FIX/call-static" --wait add 7
	wait_ready c
	follow 1 "^the program has it linked in: --lib $FIX/call-static$" \
		's/^.*: (--lib .*)/funcsnoop attach mine --pid "$(bg_pid c)" \1/' \
		attach mine --pid "$(bg_pid c)"
	tell c
	wait_bg c
	fsn stats mine
	assert_output_match '^plus +7 '
	rm "$presets/mine.json"
}

# --- configurations ---------------------------------------------------------------------------

@test "hint: a type that a configuration lacks is declared as the hint says" {
	local config=$BATS_TEST_TMPDIR/c.json line

	echo '{ "g_sym": { "plus": { "symbol": "fix_add", "args": ["my_t a"] } }, "lib": "'"$LIB"'" }' >"$config"
	fsn -s 1 attach --config "$config" --dry-run
	line=$(sed -n 's/^hint: declare it: //p' <<<"$stderr")
	[[ $line == '"types": { "my_t": {'* ]] || fail "$stderr"
	sed -i "s/^{/{ $line,/" "$config"
	fsn attach --config "$config" --dry-run
	assert_output_match '^plus '
	sed -i 's/"g_sym"/"g"/' "$config"
	fsn -s 1 attach --config "$config" --dry-run
	assert_stderr_match "^hint: the key of a group ends in _func_sym or _sym$"
	sed -i 's/"g"/"g_func_sym"/' "$config"
	fsn attach --config "$config" --dry-run
	sed -i 's/"args"/"argz"/' "$config"
	fsn -s 1 attach --config "$config" --dry-run
	assert_stderr_match "^hint: did you mean 'args'$"
}

@test "hint: a broken preset of the same name is named by the configuration that uses it" {
	local presets=$XDG_CONFIG_HOME/funcsnoop/presets config=$BATS_TEST_TMPDIR/c.json

	mkdir -p "$presets"
	echo '{' >"$presets/mine.json"
	echo '{ "mine_sym": { "plus": "fix_add" }, "lib": "'"$LIB"'" }' >"$config"
	fsn -s 1 attach --config "$config" --dry-run
	assert_stderr_match "^hint: group 'mine' of .*c.json inherits the declarations of that preset$"
	rm "$presets/mine.json"
	fsn attach --config "$config" --dry-run
}

@test "hint: arguments without a type are declared, or numbered" {
	local bare=$BATS_TEST_TMPDIR/libbare.so

	objcopy --remove-section '.debug_*' "$LIB" "$bare"
	fsn -s 2 attach g fix_add --lib "$bare" --if 'a > 0' --dry-run
	assert_stderr_match "^hint: 'fix_add': .*; declare \"args\" in a configuration, or use arg1 to arg[68]$"
	echo '{ "g_sym": { "plus": { "symbol": "fix_add", "args": ["int a"] } }, "lib": "'"$bare"'" }' \
		>"$BATS_TEST_TMPDIR/c.json"
	fsn attach --config "$BATS_TEST_TMPDIR/c.json" --if 'a > 0' --dry-run
}

@test "hint: memory without an allocating function is followed with a preset" {
	follow 2 "^use preset cuda, cuda-driver, nccl, malloc or tensors, or \"allocates\" in a configuration" \
		's/^use preset .*(malloc) or .*/funcsnoop attach \1 --memory --dry-run/' \
		attach g fix_add --lib "$LIB" --memory --dry-run
	assert_output_match '^malloc '
}

@test "hint: allocations by stack are of groups that are attached with stacks" {
	local heap=(malloc --memory --lib "$BATS_TEST_TMPDIR/copy/libc.so.6")

	copy_libc "$CALL" "$BATS_TEST_TMPDIR/copy"
	fsn attach "${heap[@]}"
	follow 2 "^attach the group again with --replace --with memory --by stack$" \
		's/^attach the group again with (.*)/funcsnoop attach "${heap[@]}" \1/' \
		list allocations malloc --by stack
	fsn list allocations malloc --by stack
	follow 2 "^attach the group again with --replace --with memory --by caller$" \
		's/^attach the group again with (.*)/funcsnoop attach "${heap[@]}" \1/' \
		list allocations malloc --by caller
	fsn list allocations malloc --by caller
	fsn attach g fix_add --lib "$LIB"
	fsn -s 1 list allocations g
	assert_stderr_match "group 'g' does not follow memory: attach the group again with --replace --with memory$"
}

# --- GPUs -----------------------------------------------------------------------------------------

@test "hint: activities of GPUs are named by those that there are" {
	[[ -r $O/libfuncsnoop-gpu.so ]] || skip "no libfuncsnoop-gpu.so"
	follow 1 "^use 'gpu:kernels', 'gpu:copies', 'gpu:sets', 'gpu:graphs' or 'gpu:ranges'$" \
		"s/^use '([^']*)'.*/funcsnoop attach g \1 --dry-run/" attach g gpu:nothing --dry-run
	assert_output_match '^kernels '
	fsn -s 1 attach g gpu:nothing
	assert_stderr_match "^funcsnoop attach: no GPU activity 'nothing' in '.*/libfuncsnoop-gpu.so'$"
}

@test "hint: a program without its library for GPUs is given the path" {
	local alone=$BATS_TEST_TMPDIR/funcsnoop

	[[ -r $O/libfuncsnoop-gpu.so ]] || skip "no libfuncsnoop-gpu.so"
	cp "$FUNCSNOOP" "$alone"
	capture -s 1 "$alone" attach g gpu:kernels --dry-run
	assert_stderr_match "^hint: it is part of funcsnoop: name its path with --lib$"
	capture "$alone" attach g gpu:kernels --lib "$O/libfuncsnoop-gpu.so" --dry-run
	assert_output_match '^kernels '
	! ldconfig -p | grep -q libcuda.so.1 || skip "libcuda.so.1 is here"
	fsn -s 1 attach g gpu:kernels --stacks all --dry-run
	assert_stderr_match "^hint: --by stack needs the functions that launch kernels: name libcuda.so.1 with --lib$"
	cp "$LIB" "$BATS_TEST_TMPDIR/libcuda.so.1"
	LD_LIBRARY_PATH=$BATS_TEST_TMPDIR fsn -s 1 attach g gpu:kernels --by stack --dry-run
	assert_stderr_match "^funcsnoop attach: no function that launches kernels in libcuda.so.1$"
	cp "$FIX/libcudamock.so" "$BATS_TEST_TMPDIR/libcuda.so.1"
	fsn attach g gpu:kernels --stacks all --lib "$BATS_TEST_TMPDIR/libcuda.so.1" \
		--lib "$O/libfuncsnoop-gpu.so" --dry-run
}

@test "hint: keys that GPUs do not know are of launches" {
	[[ -r $O/libfuncsnoop-gpu.so ]] || skip "no libfuncsnoop-gpu.so"
	follow 2 "^presets cuda and cuda-driver have it, for the calls that launch kernels$" \
		's/^presets (cuda) and .*/funcsnoop attach \1 --lib "$FIX\/libcudamock.so" --key thread --dry-run/' \
		attach g gpu:kernels --key thread --dry-run
	assert_output_match '^cuda'
}

# --- bpffs -----------------------------------------------------------------------------------------

@test "hint: a directory that is no bpffs" {
	local dir=$BATS_TEST_TMPDIR/full

	mkdir -p "$dir/something"
	fsn -s 1 --bpffs "$dir" attach g fix_add --lib "$LIB"
	assert_stderr_match "^hint: name a mounted one, such as /sys/fs/bpf, or mount one on an empty directory$"
	fsn attach g fix_add --lib "$LIB"
	rmdir "$dir/something"
	follow 1 "^run 'mount -t bpf bpf $dir'$" "s/^run '(.*)'$/\1/" --bpffs "$dir" list
	fsn --bpffs "$dir" list
	umount "$dir"
}

@test "hint: a directory in bpffs that others can write, or that another user made" {
	local dir=$BATS_TEST_TMPDIR/bpf

	mkdir "$dir"
	mount -t bpf bpf "$dir"
	mkdir -m 777 "$dir/funcsnoop"
	chmod 777 "$dir/funcsnoop"
	follow 1 "^check what it contains, then run 'chmod go-w $dir/funcsnoop'$" \
		"s/.*run '(.*)'$/\1/" --bpffs "$dir" attach g fix_add --lib "$LIB"
	fsn --bpffs "$dir" attach g fix_add --lib "$LIB"
	fsn --bpffs "$dir" detach g
	mkdir -p "$dir/funcsnoop"
	chown 65534 "$dir/funcsnoop"
	fsn -s 1 --bpffs "$dir" attach g fix_add --lib "$LIB"
	assert_stderr_match "^hint: only a directory of root or your own is used; remove it, or name another bpffs with --bpffs$"
	rmdir "$dir/funcsnoop"
	fsn --bpffs "$dir" attach g fix_add --lib "$LIB"
	fsn --bpffs "$dir" detach g
	umount "$dir"
}

# --- privileges --------------------------------------------------------------------------------

as_nobody() { # [-s STATUS] ARG...
	local opts=()

	if [[ $1 == -s ]]; then
		opts=(-s "$2")
		shift 2
	fi
	capture "${opts[@]}" setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
		--bounding-set=-all "$FUNCSNOOP" "$@"
}

# Without these capabilities, as root.
lacking() { # STATUS CAPS CMD...
	capture -s "$1" setpriv --bounding-set "$2" --inh-caps "$2" "${@:3}"
}

@test "hint: without privilege, where no bpffs is mounted" {
	local caps=--inh-caps=-all,+bpf,+perfmon none='while mountpoint -q /sys/fs/bpf; do umount -l /sys/fs/bpf; done; exec "$@"'

	need_unprivileged "$LIB" "$FUNCSNOOP"
	own_namespace 1 "$none" setpriv --reuid 65534 --regid 65534 --clear-groups "$caps" \
		"${caps/inh-caps/ambient-caps}" "$FUNCSNOOP" --bpffs /sys/fs/bpf attach g fix_add --lib "$LIB"
	assert_stderr_match "^funcsnoop attach: .*cannot mount bpffs on '/sys/fs/bpf': "
	assert_stderr_match "^hint: needs root; try with sudo, or name a mounted one with --bpffs$"
	own_namespace 0 "$none" "$FUNCSNOOP" --bpffs /sys/fs/bpf attach g fix_add --lib "$LIB"
	own_namespace 0 "$none" setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
		--bounding-set=-all "$FUNCSNOOP" --bpffs /sys/fs/bpf feature
	assert_output_match "^hint: run 'sudo mount -t bpf bpf /sys/fs/bpf'$"
	own_namespace 0 'mount -t bpf bpf /sys/fs/bpf; exec "$@"' \
		"$FUNCSNOOP" --bpffs /sys/fs/bpf feature
	refute_output_match "mount -t bpf"
	own_namespace 1 "$none" setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \
		"$FUNCSNOOP" --bpffs /sys/fs/bpf attach g fix_add --lib "$LIB"
	assert_stderr_match "^hint: needs CAP_SYS_ADMIN, which this root was started without"
}

own_namespace() { # STATUS SCRIPT CMD...
	capture -s "$1" unshare --mount --propagation private bash -c "$2" bash "${@:3}"
}

@test "hint: a read-only bpffs needs no privilege" {
	local dir=$BATS_TEST_TMPDIR/ro

	mkdir "$dir"
	mount -t bpf bpf "$dir"
	mount -o remount,ro "$dir"
	fsn -s 1 --bpffs "$dir" attach g fix_add --lib "$LIB"
	assert_stderr_match "^funcsnoop attach: .*: Read-only file system$"
	refute_stderr_match "^hint:.*(sudo|CAP_)"
	fsn attach g fix_add --lib "$LIB"
	umount "$dir"
}

@test "hint: readers and writers of a group" {
	need_unprivileged "$LIB" "$FUNCSNOOP"
	chmod o+x "${FUNCSNOOP_BPFFS%/*}" "$FUNCSNOOP_BPFFS"
	fsn attach g fix_add --lib "$LIB" --slow 1ns
	as_nobody -s 1 stats g
	assert_stderr_match "^hint: needs root, or a group attached with --share: funcsnoop-attach\(8\)$"
	fsn attach g fix_add --lib "$LIB" --slow 1ns --replace --mode 0644
	capture "$CALL" add 3
	as_nobody stats g
	assert_output_match '^fix_add +3 '
	as_nobody -s 1 reset g
	assert_stderr_match "^hint: only the group's owner and root may change it$"
	fsn reset g
	as_nobody -s 1 detach g
	assert_stderr_match "^hint: only root and the owner of '.*' may$"
	as_nobody -s 1 stats g --slow
	hint=$(sed -n 's/^hint: attach the group again with \(--replace --share 0644,all\) to share them$/\1/p' <<<"$stderr")
	[[ -n $hint ]] || fail "$stderr"
	# shellcheck disable=SC2086	# options
	fsn attach g fix_add --lib "$LIB" --slow 1ns $hint
	as_nobody stats g --slow
	fsn detach g
}

@test "hint: a group that serve does not show is shared as the hint says" {
	local hint serve=(bash -c 'printf "GET /metrics HTTP/1.0\r\n\r\n" | "$0" serve --inetd g' "$FUNCSNOOP")

	fsn attach g fix_add --lib "$LIB"
	capture -s 1 "${serve[@]}"
	hint=$(sed -n 's/^hint: attach the group again with \(.*\) to share its numbers$/\1/p' <<<"$stderr")
	[[ $hint == *0644* ]] || fail "$stderr"
	# shellcheck disable=SC2086	# options
	fsn attach g fix_add --lib "$LIB" $hint
	capture "${serve[@]}"
	assert_output_match '^HTTP/1.1 200 OK'
}

@test "hint: an owner resets with CAP_BPF" {
	need_unprivileged "$LIB" "$FUNCSNOOP"
	chmod o+x "${FUNCSNOOP_BPFFS%/*}" "$FUNCSNOOP_BPFFS"
	fsn attach g fix_add --lib "$LIB" --owner 65534
	as_nobody -s 1 reset g
	assert_stderr_match "^hint: resetting also needs CAP_BPF$"
	capture setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all,+bpf \
		--ambient-caps=-all,+bpf --bounding-set=-all,+bpf "$FUNCSNOOP" reset g
	fsn detach g
}

@test "hint: the capability that is named is the one that lacks" {
	local cap

	for cap in bpf perfmon; do
		lacking 1 "-sys_admin,-$cap" "$FUNCSNOOP" attach g fix_add --lib "$LIB"
		assert_stderr_match "^hint: needs CAP_${cap^^}, which this root was started without, as in a container$"
	done
	capture setpriv --bounding-set=-all,+bpf,+perfmon,+dac_override,+dac_read_search \
		--inh-caps=-all "$FUNCSNOOP" attach g fix_add --lib "$LIB" --link multi
	fsn detach g
	lacking 1 -chown "$FUNCSNOOP" attach g fix_add --lib "$LIB" --owner 65534
	assert_stderr_match "^hint: --share with an owner other than yourself and your groups needs CAP_CHOWN$"
	fsn attach g fix_add --lib "$LIB" --owner 65534
}

@test "hint: a refusal with all capabilities is none of theirs" {
	need_tool strace
	capture -s 1 strace -f -qq -o /dev/null -e trace=bpf -e inject=bpf:error=EPERM \
		"$FUNCSNOOP" attach g fix_add --lib "$LIB"
	assert_stderr_match "^hint: no capability is missing: kernel lockdown, a seccomp filter or a security module forbids it$"
	fsn attach g fix_add --lib "$LIB"
}

@test "hint: a user namespace has no capabilities of the host" {
	capture -s any unshare --user --map-root-user true
	((status == 0)) || skip "no user namespaces here"
	capture -s 1 unshare --user --map-root-user "$FUNCSNOOP" attach g fix_add --lib "$LIB"
	assert_stderr_match "^hint: needs CAP_BPF and CAP_PERFMON of the host, not of a container's user namespace$"
	capture unshare --user --map-root-user "$FUNCSNOOP" feature
	assert_output_match "^hint: attaching needs capabilities of the host: those of a container's user namespace are not enough$"
	fsn attach g fix_add --lib "$LIB"
}

@test "hint: processes are chosen in the host's pid namespace" {
	local enter

	need_tool nsenter
	start_bg c "$CALL" --wait add 7
	wait_ready c
	capture -s 1 unshare --pid --fork "$FUNCSNOOP" attach g fix_add --lib "$LIB" --pid "$(bg_pid c)"
	enter=$(sed -n "s/^hint: run it in the host's pid namespace: '\([^']*\)'.*/\1/p" <<<"$stderr")
	[[ $enter == nsenter* ]] || fail "$stderr"
	$enter true || skip "the namespace of process 1 is closed"
	# shellcheck disable=SC2086	# words
	capture unshare --pid --fork $enter "$FUNCSNOOP" attach g fix_add --lib "$LIB" --pid "$(bg_pid c)"
	tell c
	wait_bg c
	fsn stats g
	assert_output_match '^fix_add +7 '
}

@test "hint: another user's process" {
	need_unprivileged "$LIB" "$FUNCSNOOP"
	as_nobody -s 1 attach g fix_add --lib nosuch --pid $$ --dry-run
	assert_stderr_match "^hint: needs CAP_SYS_PTRACE; try with sudo$"
	fsn attach g fix_add --lib "$LIB" --pid $$ --dry-run
	as_nobody -s 1 attach g fix_add --lib nosuchlibrary --dry-run
	assert_stderr_match "^hint: [0-9]+ process(es)? could not be examined: needs CAP_SYS_PTRACE; try with sudo$"
	fsn -s 1 attach g fix_add --lib nosuchlibrary --dry-run
	refute_stderr_match "CAP_SYS_PTRACE"
}

@test "hint: tracepoints need root, or a tracefs that is mounted" {
	local tracing=/sys/kernel/tracing hide run

	need_tracefs
	need_unprivileged "$FUNCSNOOP"
	own_namespace 1 "mountpoint -q $tracing || mount -t tracefs t $tracing; chmod o-rx $tracing; exec \"\$@\"" \
		setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all \
		"$FUNCSNOOP" list targets t:sched:sched_switch
	assert_stderr_match "^hint: only root can read the kernel's tracepoints; try with sudo$"
	fsn list targets t:sched:sched_switch
	hide="mount -t tmpfs t $tracing; ! [[ -d /sys/kernel/debug ]] || mount -t tmpfs t /sys/kernel/debug"
	own_namespace 1 "$hide; exec \"\$@\"" setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \
		"$FUNCSNOOP" list targets t:sched:sched_switch
	run=$(sed -n "s/^hint: needs CAP_SYS_ADMIN.*, or a tracefs that root mounted: '\(.*\)'$/\1/p" <<<"$stderr")
	[[ -n $run ]] || fail "$stderr"
	own_namespace 0 "$hide; $run; exec \"\$@\"" setpriv --bounding-set=-sys_admin \
		--inh-caps=-sys_admin "$FUNCSNOOP" list targets t:sched:sched_switch
}

# --- limits -----------------------------------------------------------------------------------

@test "hint: streams are limited by open files, and by places" {
	local i

	for i in 1 2 3 4 5 6; do
		fsn attach "g$i" fix_add --lib "$LIB" --key arg1
	done
	capture -s 1 bash -c 'ulimit -n 22; exec "$@"' - "$FUNCSNOOP" stream -d 0.1
	assert_stderr_match "^hint: a process may open 22 files \('ulimit -Hn'\): stream fewer groups$"
	capture bash -c 'ulimit -n 22; exec "$@"' - "$FUNCSNOOP" stream g1 -d 0.1
	fsn -s 1 stream g1 -f nosuch -d 0.1
	follow 1 "^'funcsnoop list functions g1' shows them$" "$QUOTED" stream g1 -f nosuch
	assert_output_match '^fix_add '
	for i in 1 2 3 4 5 6 7 8; do
		start_bg "s$i" "$FUNCSNOOP" stream g1
		poll_until grep -q watching "$(bg_err "s$i")"
	done
	fsn -s 1 stream g1 -d 0.1
	assert_stderr_match "^hint: stop one; the place of a killed one is free after 5 s$"
	stop_bg s3
	fsn stream g1 -d 0.1
	stop_bg -KILL s4
	fsn stream g1 -d 0.1
	start_bg again "$FUNCSNOOP" stream g1
	poll_until -t 10 grep -q watching "$(bg_err again)"
	for i in s1 s2 s5 s6 s7 s8 again; do
		stop_bg $i
	done
	fsn detach --all
}

@test "hint: RLIMIT_MEMLOCK of 0 gives none" {
	capture bash -c 'ulimit -l 0; exec "$@"' - "$FUNCSNOOP" attach g fix_add --lib "$LIB"
	assert_stderr ""
	fsn detach g
}

# --- others ----------------------------------------------------------------------------------

@test "hint: a group of another layout is detached" {
	local meta=$FUNCSNOOP_BPFFS/funcsnoop/g/meta

	need_tool bpftool
	fsn attach g fix_add --lib "$LIB"
	# shellcheck disable=SC2046	# a word a byte; the layout is the first
	bpftool map update pinned "$meta" key 0 0 0 0 value $(
		bpftool -j map lookup pinned "$meta" key 0 0 0 0 | jq -r '.value | .[0] = "0x63" | join(" ")')
	fsn -s any stats g
	assert_stderr_match "^hint: read it with the version that attached it, or detach it$"
	fsn detach g
	assert_eq "$(groups)" ""
}

@test "hint: a link that is held is shown by bpftool as the hint says" {
	local kept=$FUNCSNOOP_BPFFS/kept

	need_tool bpftool
	fsn attach g fix_add --lib "$LIB" --exit none
	bpftool link pin pinned "$FUNCSNOOP_BPFFS/funcsnoop/g/link_0" "$kept"
	follow 1 "^'bpftool -f link show id [0-9]+' shows the process or pin; they count until it is gone$" \
		"s/^'(.*)' shows.*/capture \1/" detach g
	assert_output_match "pinned $kept"
	rm "$kept"
}

@test "hint: --pid of a group whose probes are in processes of --pid" {
	start_bg c "$CALL" --wait add 7
	wait_ready c
	fsn attach g fix_add --lib "$LIB" --pid $$
	fsn -s any set g --pid "$(bg_pid c)"
	if ((status)); then
		assert_stderr_match "^hint: attach the group again with --replace and the other --pid$"
		fsn attach g fix_add --lib "$LIB" --replace --pid "$(bg_pid c)"
	fi
	tell c
	wait_bg c
	fsn stats g
	assert_output_match '^fix_add +7 '
}

@test "hint: words of --fail-if are those that the hint lists" {
	fsn attach g fix_add --lib "$LIB"
	capture "$CALL" add 3
	fsn -s 2 stats g --fail-if 'nosuch>5'
	[[ $stderr =~ known\ are\ ([a-z]+),\  ]] || fail "$stderr"
	fsn stats g --fail-if "${BASH_REMATCH[1]}>5"
	fsn -s 3 stats g --fail-if "${BASH_REMATCH[1]}>2"
}

@test "hint: a link kind that the kernel lacks is left out" {
	local kind

	read_links
	for kind in session multi perf; do
		[[ " ${links[*]} " != *" $kind "* ]] || continue
		fsn -s 1 attach g fix_add --lib "$LIB" --link $kind
		assert_stderr_match "^hint: leave out --probe link to use the best links that it has$"
		fsn attach g fix_add --lib "$LIB"
		return
	done
	skip "this kernel has all kinds of links"
}

# --- feature -------------------------------------------------------------------------------------

@test "hint: feature's hint of the JIT makes it on" {
	local jit=/proc/sys/net/core/bpf_jit_enable run file=$BATS_TEST_TMPDIR/jit

	need_tool sysctl
	[[ -e $jit ]] || skip "no $jit"
	echo 0 >"$file"
	mount --bind "$file" $jit
	fsn feature
	run=$(sed -n "s/^hint: the JIT is off, which makes probes slow: run '\(.*\)'$/\1/p" <<<"$output")
	[[ -n $run ]] || fail "$output"
	# shellcheck disable=SC2086	# words
	capture $run
	fsn feature
	refute_output_match 'the JIT is off'
	umount $jit
}

@test "hint: feature's hints of links, BTF and an own bpffs" {
	local own=$BATS_TEST_TMPDIR/own caps=-all,+bpf,+perfmon feature

	own_run
	own_namespace 0 'mount -t tmpfs t /sys/kernel/btf; exec "$@"' "$FUNCSNOOP" feature --fresh
	assert_output_match "^hint: session links need a kernel with CONFIG_DEBUG_INFO_BTF$"
	fsn feature --fresh
	refute_output_match "CONFIG_DEBUG_INFO_BTF$"
	need_unprivileged "$LIB" "$FUNCSNOOP"
	chmod o+x "$BATS_RUN_TMPDIR" "$BATS_TEST_TMPDIR" "${BATS_TEST_TMPDIR%/*}"
	mkdir "$own"
	mount -t bpf -o mode=0755 bpf "$own"
	feature=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps "$caps" --ambient-caps
		"$caps" --bounding-set "$caps" "$FUNCSNOOP" --bpffs "$own" feature)
	capture "${feature[@]}"
	assert_output_match "^hint: use a bpffs of your own with --bpffs: PRIVILEGES in funcsnoop\(8\)$"
	chown 65534 "$own"
	capture "${feature[@]}"
	refute_output_match "^hint: use a bpffs"
	umount "$own"
}

@test "hint: feature's hint of unsafe return probes" {
	local cache=/run/funcsnoop/feature

	own_run
	fsn feature
	sed -i 's/^0 . .*/0 n MARKED/' "$cache"
	fsn feature
	assert_output_match "^hint: calls are timed by probes on ret instructions here; '--probe exit=return' can kill processes$"
	fsn attach g fix_add --lib "$LIB" --dry-run
	assert_output_match '^fix_add .* ret '
	fsn attach g fix_add --lib "$LIB" --exit return --dry-run
	assert_output_match '^fix_add .* return '
	fsn feature --fresh
	refute_output_match '^hint: calls are timed'
}

# --- notes --------------------------------------------------------------------------------------

@test "hint: functions of a kernel without kprobes and fentry" {
	fsn -s any attach g k:vfs_read --dry-run
	((status)) || skip "this kernel has probes of its functions"
	follow 1 "^use a system call or a tracepoint: 'funcsnoop list targets " "s/^[^']*'(.*)'$/\1/" \
		attach g kprobe:vfs_read
	assert_output_match '^s:read '
	assert_output_match '^t:sched:sched_switch '
}

@test "hint: USDT probes of running programs are listed" {
	start_bg c "$FIX/events" --wait threads 2 1
	wait_ready c
	follow 1 "^'funcsnoop list targets " "$QUOTED" run 'u:no_such_provider:*'
	assert_output_match "^u:.*/events:fixed:tick "
	fsn -s 1 attach g 'u:no_such_provider:*' -p "$(bg_pid c)"
	assert_stderr_match "^hint: mapped files have ('u:[a-z]+:\*', )*'u:fixed:\*'"
	fsn attach g 'u:fixed:*' -p "$(bg_pid c)" --dry-run
	tell c
	wait_bg c
}

@test "hint: a full table of blocks is made larger" {
	local more hint heap=(malloc --memory --lib "$BATS_TEST_TMPDIR/copy/libc.so.6")

	copy_libc "$(command -v bash)" "$BATS_TEST_TMPDIR/copy"
	fsn attach "${heap[@]}" --blocks 4
	for more in 92 0; do
		start_bg b env LD_LIBRARY_PATH="$BATS_TEST_TMPDIR/copy" bash -c 'echo "ready "; read -r'
		wait_ready b
		fsn list allocations malloc
		hint=$(sed -n 's/^funcsnoop list: [0-9]* blocks were not tracked: .*; attach the group again with \(.*\)N$/\1/p' <<<"$stderr")
		fsn stats malloc
		if ((more)); then
			assert_eq "$hint" "--replace --limit allocations="
			assert_stderr_match "not in the live memory: table full; attach the group again with --replace --limit allocations=N$"
			# shellcheck disable=SC2086	# words
			fsn attach "${heap[@]}" ${hint}100000
		else
			assert_eq "$hint" ""
			refute_stderr_match "table full"
		fi
		stop_bg b
	done
}

@test "hint: other processes are spared by run" {
	local hint

	start_bg c "$CALL" --wait add 7
	wait_ready c
	fsn run "$LIB:fix_add" -- "$CALL" add 3
	hint=$(sed -n 's/^funcsnoop run: to follow children, 1 other process pays for breakpoints, too; use \(.*\) to spare them$/\1/p' <<<"$stderr")
	[[ $hint == "--without children" ]] || fail "$stderr"
	# shellcheck disable=SC2086 # two words
	fsn run "$LIB:fix_add" $hint -- "$CALL" add 3
	refute_stderr_match 'other process'
	assert_stderr_match '^fix_add +3 '
	tell c
	wait_bg c
}

@test "hint: deep recursions are timed with --exit ret" {
	local hint

	need_arch x86_64
	fsn attach g fr_indirect --lib "$FIX/libframes.so" --exit return
	capture "$FIX/frames-lib" 300
	fsn stats g
	hint=$(sed -n 's/^.*: the kernel tracks 64 nested calls with return probes; use \(.*\) to time them$/\1/p' <<<"$stderr")
	[[ $hint == '--probe exit=ret' ]] || fail "$stderr"
	# shellcheck disable=SC2086	# words
	fsn attach g fr_indirect --lib "$FIX/libframes.so" --replace $hint
	capture "$FIX/frames-lib" 300
	fsn stats g --json
	assert_json '.[0] | [.functions[0].calls, .functions[0].untimed, .health.too_deep]' '[301,0,0]'
	fsn attach g 'rate_*' --lib "$FIX/rates" --overhead none --replace
	refute_output_match 'left out'
}
