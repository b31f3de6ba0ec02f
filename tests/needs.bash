# SPDX-License-Identifier: BSD-2-Clause
# Requirements of tests: each function skips the test, with the reason, if something is
# missing. Loaded by helpers.bash.
#
# shellcheck shell=bash disable=SC2034	# $CUDART and others are for the tests

need_root() {
	((EUID == 0)) || skip "needs root"
}

need_bpf() {
	need_root
	[[ -z ${FSN_NO_BPF-} ]] || skip "needs BPF: $FSN_NO_BPF"
}

# AddressSanitizer wants terabytes of addresses, its own malloc, and no other tracer.
need_no_sanitizer() {
	! grep -q __asan_init "$FUNCSNOOP" || skip "not with AddressSanitizer"
}

need_tool() { # TOOL...
	local tool

	for tool; do
		command -v "$tool" >/dev/null || skip "needs $tool"
	done
}

need_fixture() { # NAME...: of those that are built only where a compiler is
	local name

	for name; do
		[[ -e $FIX/$name ]] || skip "fixture $name is not built here"
	done
}

# Where a probe takes microseconds, as under some hypervisors, what is left of short times is noise.
need_fast_probes() {
	local none

	need_bpf
	none=$("$FUNCSNOOP" feature --calibrate --json | jq .calibration.none_ns)
	((none <= 2500)) || skip "a probe takes $none ns here: times of short calls are not known to 1 us"
}

need_tracefs() {
	grep -qw tracefs /proc/filesystems || skip "this kernel has no tracefs"
}

need_kprobes() {
	need_bpf
	[[ -e /sys/bus/event_source/devices/kprobe ]] || skip "this kernel has no kprobes"
}

need_arch() { # x86_64 or aarch64
	[[ $(uname -m) == "$1" ]] || skip "needs $1"
}

# Sets CUDART to a libcudart of this machine.
need_cuda() {
	local f

	for f in "${FSN_CUDART-}" /usr/local/cuda/lib64/libcudart.so.* \
		/usr/local/cuda-*/lib64/libcudart.so.* /usr/lib/*/libcudart.so.*; do
		[[ -n $f && -r $f ]] || continue
		CUDART=$(realpath "$f")
		return
	done
	skip "no libcudart on this machine"
}

# Sets NCCL to a libnccl of this machine: of CUDA, of Debian, or of a Python wheel.
need_nccl() {
	local f

	for f in "${FSN_NCCL-}" /usr/local/cuda/lib*/libnccl.so.2 /usr/local/cuda-*/lib*/libnccl.so.2 \
		/usr/lib/*/libnccl.so.2 /usr/lib/python3/dist-packages/nvidia/nccl/lib/libnccl.so.2 \
		/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2; do
		[[ -n $f && -r $f ]] || continue
		NCCL=$(realpath "$f")
		return
	done
	skip "no libnccl on this machine"
}

# MODE is session, multi or perf. The answer is kept for the whole run.
need_link() {
	local known=$BATS_RUN_TMPDIR/link-$1

	need_bpf
	if [[ ! -e $known ]]; then
		echo n >"$known"
		if timeout 60 "$FUNCSNOOP" attach --link "$1" --exit return needlink fix_add \
			--lib "$FIX/libfix.so" >"$known.out" 2>&1 </dev/null; then
			echo y >"$known"
			timeout 60 "$FUNCSNOOP" detach needlink
		fi
	fi
	[[ $(<"$known") == y ]] || skip "this kernel has no $1 links"
}

need_unprivileged() { # FILE...: that somebody without privilege can read
	local f

	((EUID == 0)) || return 0
	need_tool setpriv
	for f; do
		setpriv --reuid=65534 --clear-groups test -r "$f" ||
			skip "an unprivileged user can't read $f"
	done
}

# script makes one, which takes a /dev/pts that gives some out.
need_terminal() {
	need_tool script
	timeout 10 script -qec true /dev/null >/dev/null 2>&1 </dev/null ||
		skip "no terminal can be made: $(script -qec true /dev/null 2>&1 </dev/null | head -n 1)"
}
