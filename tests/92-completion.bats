#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# bash completion, driven as bash drives it.

# shellcheck disable=SC2016 # nothing is to be expanded here

load helpers

# Completes the last of WORDS; one reply a line, sorted. Words are given as bash splits
# them: --color=a is --color, = and a.
complete_words() { # WORD...
	capture bash --norc -c '
		set -u
		. "$1" || exit
		shift
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
		COMP_TYPE=9 COMP_KEY=9
		_funcsnoop "$1" "${!#}" "${*: -2:1}"
		((!${#COMPREPLY[@]})) || printf "%s\n" "${COMPREPLY[@]}" | sort
	' bash "$BATS_TEST_DIRNAME/../completions/funcsnoop" "$FUNCSNOOP" "$@"
	assert_stderr ""
}

assert_words() { # WORD...: exactly these
	assert_output "$(printf '%s\n' "$@" | sort)"
}

@test "completion: bash registers it for funcsnoop" {
	capture bash --norc -c '. "$1" && complete -p funcsnoop' bash \
		"$BATS_TEST_DIRNAME/../completions/funcsnoop"
	assert_output "complete -F _funcsnoop funcsnoop"
	[[ -z $stderr ]]
}

@test "completion: commands come first, also after global options with values" {
	complete_words ""
	assert_words run attach list stats stream stack serve compare reset set detach feature help version
	complete_words st
	assert_words stack stats stream
	complete_words --json --bpffs /nowhere de
	assert_words detach
	complete_words --color = never -q rese
	assert_words reset
	complete_words help se
	assert_words serve set
	complete_words help stats ""
	assert_output ""
}

@test "completion: options are those of the command, before and after its arguments" {
	complete_words --v
	assert_words --version
	complete_words stats --to
	assert_words --top
	complete_words stats cuda --s
	assert_words --show --sort
	complete_words detach --s
	assert_output ""
	complete_words attach cuda --lib x --wi
	assert_words --with --without
	complete_words list inflight --ol
	assert_words --older-than
	complete_words reset cuda --js
	assert_words --json
	# Options that have another name now are known, and not offered.
	complete_words attach cuda --mem
	assert_output ""
}

@test "completion: offers no option after --" {
	complete_words stats -- --s
	assert_output ""
}

@test "completion: values of options are offered as words of their own and after =" {
	complete_words attach cuda --with ""
	assert_words split memory
	complete_words attach cuda --without = pro
	assert_words processes
	complete_words attach cuda --without =
	assert_words nesting processes correction
	complete_words attach cuda --without=ne
	assert_words --without=nesting
	complete_words attach cuda --with split,m
	assert_words split,memory
	complete_words attach --probe ""
	assert_words exit= link= site=
	complete_words run cuda --limit ""
	assert_words allocations= buffer= rows=
	complete_words stream --limit ""
	assert_words buffer=
	complete_words stream --only ""
	assert_words slow failed
	complete_words run cpu --sample ""
	assert_words 1/10 1/100 99hz
	complete_words stats --show ""
	assert_words hist errors slow tree
	complete_words --color ""
	assert_words auto always never
	complete_words stats --color = a
	assert_words auto always
	complete_words stats --sort ""
	assert_words total self on_cpu queued blocked calls avg max p99 errors slow live exit name
	complete_words stats --top ""
	assert_words 10 5%
	complete_words attach my --share 06
	assert_words 0640 0644
	complete_words attach my --share 0640,al
	assert_words 0640,all
	complete_words set my --pid al
	assert_words all
	complete_words set my --pid 1 --if all --sl
	assert_words --slow
}

@test "completion: the value of -p is a process, also before a command" {
	complete_words -p "$$"
	assert_output_match "^$$"
	complete_words attach -p "$$"
	assert_output_match "^$$"
}

# Replies to -p, in their order; COMP_TYPE is that of a key pressed twice.
complete_pids() { # TYPE WORD...
	capture bash --norc -c '
		. "$1"
		COMP_TYPE=$2 COMP_WORDS=("${@:3}") COMP_CWORD=$(($# - 3)) COMP_LINE="${*:3}"
		_funcsnoop
		((!${#COMPREPLY[@]})) || printf "%s\n" "${COMPREPLY[@]}"
	' bash "$BATS_TEST_DIRNAME/../completions/funcsnoop" "$1" "$FUNCSNOOP" "${@:2}"
	assert_stderr ""
}

@test "completion: processes show their names, those with the library first" {
	local pid two three words lead

	start_bg one "$FIX/call" --wait add 1
	start_bg two "$FIX/engine" threads 1 1
	start_bg three "$FIX/call" --wait add 1
	wait_ready one
	wait_ready three
	pid=$(bg_pid one) two=$(bg_pid two) three=$(bg_pid three)
	for words in "attach my $FIX/libfix.so:fix_add -p" "attach my --lib $FIX/libfix.so fix_add -p" \
		"run $FIX/libfix.so:fix_add --pid" "attach my --lib=libfix.so.1 fix_add --pid" \
		"attach my fix_add -l fix -p"; do
		# shellcheck disable=SC2086	# several words
		complete_pids 63 $words ""
		# All processes up to the second have it; later ones may have one with that
		# name.
		lead=$(awk -v one="$pid" -v three="$three" \
			'{ print } ($1 == one || $1 == three) && ++cnt == 2 { exit }' <<<"$output")
		assert_eq "$(grep -cxE "($pid|$three) call" <<<"$lead")" 2 "$lead after $words"
		assert_eq "$(grep -cxE "($two engine|$$ bash)" <<<"$lead")" 0 "$lead after $words"
		assert_output_match "^$$ bash$"
	done
	complete_pids 63 attach my f -p "$pid"
	assert_output_match "^$pid( call)?$"
	# A number is inserted unchanged.
	complete_pids 37 attach my f -p ""
	assert_eq "$(grep -v '^[0-9]*$' <<<"$output")" ""
	tell one
	tell three
	wait_bg one
	wait_bg three
	wait_bg two
}

@test "completion: offers keys after --by, for stats those of groups" {
	need_bpf
	fsn attach keyed "$FIX/libfix.so:fix_add" --key arg1,caller
	fsn attach other "$FIX/libfix.so:fix_add" --key thread
	complete_words stats --by ""
	assert_words arg1 bandwidth blocked-in caller cgroup flat function library process stack thread
	complete_words stats keyed --by c
	assert_words caller cgroup
	complete_words run c:malloc --by ca
	assert_words caller
	complete_words attach my c:malloc --by caller,st
	assert_words caller,stack
	fsn detach --all
}

@test "completion: offers presets after attach, also the user's own" {
	mkdir -p "$XDG_CONFIG_HOME/funcsnoop/presets"
	echo '{ "zzmine_sym": { "f": "f" }, "lib": "c" }' \
		>"$XDG_CONFIG_HOME/funcsnoop/presets/zzmine.json"
	complete_words attach ""
	for name in cuda cuda-driver cublas cublaslt cudnn files nccl libtorch malloc openssl level-zero \
		syscalls tensors zzmine; do
		assert_output_line "$name"
	done
	complete_words attach zz
	assert_words zzmine
	complete_words attach --lib x cuda-
	assert_words cuda-driver
	complete_words attach zzmine zz
	assert_output ""
	rm -r "$XDG_CONFIG_HOME/funcsnoop"
}

@test "completion: functions of the named library, before or after the cursor" {
	local lib=$FIX/libfix.so

	complete_words attach my --lib "$lib" fix_al
	assert_words fix_alias_a
	complete_words attach my -l "$lib" fix_add fix_n
	assert_words fix_nested
	complete_words attach my --lib = "$lib" fix_n
	assert_words fix_nested
	complete_words attach my --lib="$lib" fix_n
	assert_words fix_nested
	complete_words attach my -l "$lib" -l "$FIX/libengine.so" eng_le
	assert_words eng_leaf
	complete_words attach my --lib "$lib" ""
	assert_output_line fix_add
	assert_output_line fix_recurse
	complete_words attach my --lib "$lib" nosuch
	assert_output ""
	complete_words attach my --lib /nonexistent fix_
	assert_output ""
	complete_words attach my fix_
	assert_output ""
	# The word under the cursor is not the last one.
	capture bash --norc -c '. "$1"; COMP_WORDS=("$2" attach my fix_n --lib "$3") COMP_CWORD=3
		COMP_LINE="$2 attach my fix_n" COMP_POINT=${#COMP_LINE} COMP_LINE+=" --lib $3"
		_funcsnoop && echo "${COMPREPLY[*]}"' bash \
		"$BATS_TEST_DIRNAME/../completions/funcsnoop" "$FUNCSNOOP" "$lib"
	assert_output fix_nested
}

# Replies to LINE, with its words as bash splits them. Without timeout(1), whose two seconds a busy
# machine exceeds.
complete_line() { # LINE
	capture bash --norc -c '. "$1"; COMP_LINE="$2 $3" COMP_POINT=${#COMP_LINE}
		type() { [[ $2 != timeout ]] && builtin type "$@"; }
		words=${3//::/ @@ } words=${words//:/ : } words=${words//@@/::}
		read -ra COMP_WORDS <<<"$2 $words"
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		_funcsnoop && printf "%s\n" "${COMPREPLY[@]}" | sort' bash \
		"$BATS_TEST_DIRNAME/../completions/funcsnoop" "$FUNCSNOOP" "$1"
	assert_stderr ""
}

@test "completion: methods of Go are offered with backslashes, and inside quotes without" {
	local prog=$BATS_TEST_TMPDIR/own quote

	need_tool cc
	cat >"$prog.c" <<-'END'
		__asm__(".text\n.globl \"main.(*Store).Save\"\n.type \"main.(*Store).Save\", %function\n"
			"\"main.(*Store).Save\": ret\n");
		__asm__(".globl main.wait\n.type main.wait, %function\nmain.wait: ret\n");
		int main(void) { return 0; }
	END
	capture cc -o "$prog" "$prog.c"
	complete_line "run $prog:main."
	assert_words 'main.\(\*Store\).Save' main.wait
	complete_line "run $prog:main.\\(\\*S"
	assert_words 'main.\(\*Store\).Save'
	for quote in \' '"'; do
		complete_line "run $quote$prog:main."
		assert_words "$prog:main.(*Store).Save" "$prog:main.wait"
		complete_line "run $quote$prog:main.(*St"
		assert_words "$prog:main.(*Store).Save"
	done
}

@test "completion: offers names of arguments of the functions on the line, if known" {
	complete_line "attach my $FIX/proto:pr_copy --by d"
	assert_output dir
	complete_line "attach my $FIX/proto:pr_copy --by dir,pa"
	assert_output dir,path
	complete_line "run $FIX/proto:pr_copy --sum b"
	assert_output "buf
bytes"
	complete_line "attach my --lib $FIX/proto pr_mixed pr_many --if a"
	assert_output "a
after"
	complete_line "attach my $FIX/stripped/proto:pr_copy --sum b"
	assert_output ""
}

@test "completion: offers C++ names and LIB:FUNCTION, from the last colon on" {
	complete_line "attach my $FIX/libfix.so:fix_al"
	assert_words fix_alias_a
	need_fixture libhazcxx.so
	complete_line "attach my --lib $FIX/libhazcxx.so hz::Linear::ma"
	assert_words make
	complete_line "attach my --lib $FIX/libhazcxx.so hz::Lin"
	assert_words Linear::Linear Linear::forward Linear::make Linear::~Linear
	complete_line "attach my --lib $FIX/libhazcxx.so hz::ov"
	assert_words over
	complete_line "run $FIX/libhazcxx.so:hz::ov"
	assert_words over
	complete_line "run $FIX/libhazcxx.so:hz::tw"
	assert_words twice
	complete_line "run $FIX/libhazcxx.so:hz::Linear::f"
	assert_words forward
}

@test "completion: functions are offered by their last part, and in a program of this directory" {
	need_tool cc
	cat >"$BATS_TEST_TMPDIR/own-prog.c" <<-'END'
		#define FUNCTION(name) __asm__(".text\n.globl \"" name "\"\n.type \"" name "\", %function\n" \
			"\"" name "\": ret\n");
		FUNCTION("_ZN4mine5firstEv")
		FUNCTION("_RNvXC4mineNtB2_4KindNtB2_5Trait6answer")
		int main(void) { return 0; }
	END
	cd "$BATS_TEST_TMPDIR"
	capture cc -o own-prog own-prog.c
	fsn list targets "./own-prog:*"
	assert_output_match '<mine::Kind as mine::Trait>::answer'
	complete_line "run ./own-prog:"
	refute_output_match answer
	assert_output_line mine::first
	complete_line "run ./own-prog:ans"
	assert_words answer
	fsn list targets ./own-prog:answer
	complete_line "run own-prog:mine::f"
	assert_words first
	complete_line "run own-prog:fi"
	assert_words first
}

@test "completion: offers kernel targets and USDT probes, also for list targets" {
	local events want

	events=$(realpath "$FIX/events")
	complete_line "attach my u:$events:fixed:wo"
	assert_words work__done work__start
	complete_line "attach my u:$events:wo"
	assert_words work__done work__start
	start_bg fix "$events" --wait threads 2 1
	wait_ready fix
	complete_line "attach my -p $(bg_pid fix) u:fixed:"
	assert_words guarded pair tick work__done work__start
	tell fix
	wait_bg fix
	complete_line "list targets s:openat"
	assert_words openat openat2
	# Lines with code; the part after the last colon, as always.
	fsn list targets "$FIX/call:call.c:2*"
	want=$(sed -n 's/.*:call\.c:\([0-9]*\) .*/\1/p' <<<"$output" | sort)
	[[ $want == 2*2* ]] || fail "no lines"
	complete_line "list targets $FIX/call:call.c:2"
	assert_output "$want"
	complete_line "run s:openat s:renamea"
	assert_words renameat renameat2
	[[ ! -r /sys/kernel/btf/vmlinux ]] || {
		complete_line "list targets k:vfs_readl"
		assert_words vfs_readlink
	}
}

@test "completion: offers functions of a preset" {
	need_cuda
	complete_words attach cuda --lib "$CUDART" cudaGetDeviceC
	assert_words cudaGetDeviceCount
}

@test "completion: functions of a large library appear within two seconds" {
	local lib ms

	for lib in /usr/local/cuda/lib64/libcublas.so.* /usr/local/cuda-*/lib/libcublas.so.*; do
		[[ -r $lib ]] && break
	done
	[[ -r $lib ]] || skip "no libcublas on this machine"
	ms=$(ms_of complete_words attach my --lib "$lib" cublasSg)
	echo "# cublasSg<TAB>: $ms ms" >&3
	complete_words attach my --lib "$lib" cublasSg
	assert_output_line cublasSgemm_v2
}

@test "completion: libraries are files of a directory, and names of the linker cache" {
	need_tool ldconfig
	mkdir "$BATS_TEST_TMPDIR/libs"
	touch "$BATS_TEST_TMPDIR/libs/"{libone.so.1,"lib two.so",other}
	complete_words attach my f --lib "$BATS_TEST_TMPDIR/libs/lib"
	assert_words "$BATS_TEST_TMPDIR/libs/libone.so.1" "$BATS_TEST_TMPDIR/libs/lib two.so"
	complete_words attach my f -l "$BATS_TEST_TMPDIR/libs/o"
	assert_words "$BATS_TEST_TMPDIR/libs/other"
	cd "$BATS_TEST_TMPDIR/libs"
	complete_words attach my f --lib libc.so
	assert_words "$(ldconfig -p | awk '$1 ~ /^libc\.so/ { print $1 }' | sort -u)"
	complete_words attach my f --lib = libone
	assert_output_line libone.so.1
	complete_words attach my f --lib c
	assert_output_line c
}

@test "completion: offers files where a program may be named" {
	mkdir "$BATS_TEST_TMPDIR/own"
	cd "$BATS_TEST_TMPDIR/own"
	touch owner other
	complete_words run ./ow
	assert_words ./owner
	complete_words attach my "$PWD/o"
	assert_words "$PWD/other" "$PWD/owner"
	complete_words attach my f -p 1 ./ow
	assert_words ./owner
	complete_words run ow
	assert_words owner
	complete_words attach ow
	assert_output ""
	complete_line "run $FIX/libfix.so:fix_al"
	assert_words fix_alias_a
	complete_line "run -d 1 $FIX/libfix.so:fix_al"
	assert_words fix_alias_a
}

@test "completion: runs no command in a file name" {
	mkdir "$BATS_TEST_TMPDIR/evil"
	cd "$BATS_TEST_TMPDIR/evil"
	touch '$(touch gotcha)' 'a;touch gotcha'
	complete_words attach my f --lib '$'
	assert_output_line '$(touch gotcha)'
	complete_words attach my f --config ""
	[[ ! -e gotcha ]]
}

@test "completion: offers pinned groups, of this bpffs or another" {
	need_bpf
	fsn attach one fix_add --lib "$FIX/libfix.so"
	fsn attach two-2 fix_add --lib "$FIX/libfix.so"
	complete_words stats ""
	assert_words one two-2
	complete_words detach one tw
	assert_words two-2
	complete_words detach one ""
	assert_words two-2
	complete_words list inflight two-2 one ""
	assert_output ""
	complete_words set ""
	assert_words one two-2
	complete_words set one ""
	assert_output ""
	complete_words list ""
	assert_words functions presets targets inflight crashes allocations one two-2
	complete_words list functions o
	assert_words one
	complete_words list presets ""
	assert_output ""
	export FUNCSNOOP_BPFFS_OLD=$FUNCSNOOP_BPFFS
	FUNCSNOOP_BPFFS=/sys/fs/bpf complete_words --bpffs "$FUNCSNOOP_BPFFS_OLD" reset ""
	assert_words one two-2
	FUNCSNOOP_BPFFS=/sys/fs/bpf complete_words reset --bpffs = "$FUNCSNOOP_BPFFS_OLD" ""
	assert_words one two-2
	fsn detach --all
	complete_words stats ""
	assert_output ""
}

@test "completion: prints nothing without privilege or without the program" {
	complete_words --bpffs /nowhere stats ""
	assert_output ""
	FUNCSNOOP=/nowhere/funcsnoop complete_words stats ""
	assert_output ""
	FUNCSNOOP=/nowhere/funcsnoop complete_words sta
	assert_output ""
}

@test "completion: system calls, tracepoints and USDT probes follow their prefix" {
	local events want

	need_fixture events
	events=$(realpath "$FIX/events")
	complete_line "attach my s:opena"
	assert_words openat openat2
	complete_line "attach my u:$events:fixed:work"
	assert_words work__done work__start
	[[ $(id -u) == 0 ]] || skip "only root reads the names of tracepoints"
	complete_line "attach my t:sched:sched_process_ex"
	assert_words sched_process_exec sched_process_exit
}
