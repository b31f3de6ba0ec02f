/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decodes one instruction at a time: its length, control flow and effect on the stack pointer, and
 * whether the kernel can probe it. The disassembler is private to this module.
 *
 * Capstone provides lengths and validity on x86-64. The meaning of an instruction is derived from
 * its opcode, because the names differ between releases of Capstone. arm64 instructions are words
 * of fixed meaning, for which Capstone provides only the text.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/plan.h"

enum insn_flow {
	INSN_PLAIN,    /* goes on behind itself */
	INSN_JMP,      /* to .target */
	INSN_JCC,      /* continues with the next instruction */
	INSN_CALL,     /* to .target, if has_target, and usually back */
	INSN_RET,      /* the plain return instruction */
	INSN_RET_AUTH, /* arm64 retaa and retab: a return that cannot be probed */
	INSN_JMP_REG,  /* to the address in .reg */
	INSN_JMP_MEM,  /* to the address in a word in memory */
	INSN_TABLE,    /* a jump through a jump table: stays in the function */
	INSN_STOP,     /* ud2, hlt, int3, brk: control does not continue */
	INSN_BAD,      /* cannot be decoded; one byte, or an arm64 word */
	INSN_FAR,      /* far jumps, interrupt and system returns: not tracked */
};

/* Effect on the stack pointer, sp, and on the frame pointer, fp. */
enum insn_sp {
	INSN_SP_KEEP,
	INSN_SP_ADD,     /* sp += .sp_arg */
	INSN_SP_TO_FP,   /* fp = sp + .sp_arg */
	INSN_SP_FROM_FP, /* sp = fp + .sp_arg */
	INSN_SP_LOST,    /* sp = something else */
};

/*
 * How an instruction accesses the stack. x86-64: it reads or writes at an address relative to the
 * stack pointer or the frame pointer, or copies that address to a register or to memory.
 */
enum insn_stack {
	INSN_STACK_NONE,
	INSN_STACK_SP,
	INSN_STACK_FP,
	INSN_STACK_SAVES_LR, /* arm64: stores the return address outside the frame */
};

#define INSN_COND_NONE 255 /* a condition that BPF programs cannot evaluate: loop, xbegin */

struct insn {
	uint64_t addr;
	uint64_t target; /* of a direct jump or call */
	uint64_t data;   /* an address that it reads from or takes */
	int32_t sp_arg;
	int32_t stack_at;  /* .stack: offset from that register */
	uint16_t stack_len; /* maximum bytes that are accessed there; 0: the address is copied */
	uint8_t len;
	uint8_t flow; /* enum insn_flow */
	uint8_t sp;   /* enum insn_sp */
	uint8_t cond; /* as in struct plan_end */
	uint8_t reg, bit, width;
	bool has_target : 1;
	bool nop : 1;  /* padding: a nop of any length, or a word of zeros */
	bool lock : 1; /* x86-64: starts with a lock prefix, which some code jumps over */
	bool sets_fp : 1; /* x86-64: writes the frame pointer, other than by pop or leave */
	bool indexed : 1;  /* JMP_MEM: the address has an index register */
	uint8_t stack : 2; /* enum insn_stack */
	bool has_data : 1;
	bool takes_addr : 1; /* .data is not read: lea, adr */
	/* set by the planner */
	bool lands : 1; /* target of a jump table or of the unwinder */
	bool table_read : 1;
	bool astray : 1; /* target of a jump into its middle: if nothing leads to its start, it
			    is not an instruction */
};

/* The format of a jump table. */
enum insn_table_form {
	INSN_TABLE_REL32, /* table + a 32-bit difference */
	INSN_TABLE_ABS64, /* 64-bit addresses */
	INSN_TABLE_REL,   /* arm64: .anchor + a difference of .width bytes times .scale */
};

struct insn_table {
	enum insn_table_form form;
	uint64_t base;    /* address of the table, or 0: in .base_reg */
	uint8_t base_reg; /* x86-64 */
	uint64_t anchor;
	uint8_t width, scale;
	bool is_signed;
};

/* Number of instructions before a jump that are searched for its table. */
#define INSN_TABLE_LOOK 24

struct insn_decoder;

/*
 * Returns 0, or -ENOTSUP if Capstone lacks the architecture. The caller frees *ret_dec with
 * insn_close().
 */
int insn_open(enum plan_arch arch, struct insn_decoder **ret_dec, struct err *err);
void insn_close(struct insn_decoder *dec);

/*
 * Decodes the instruction at address @addr with the bytes @bytes, of which @len are readable.
 * Returns false if they are not an instruction, or if processors decode it differently.
 */
bool insn_decode(struct insn_decoder *dec, const uint8_t *bytes, size_t len,
	uint64_t addr, struct insn *ret_insn);

/*
 * True if @insn is the jump at the end of a jump table's dispatch, judged by the instructions
 * before it. @prev of them precede @insn in the same array, and their bytes precede @bytes, those
 * of @insn.
 */
bool insn_is_dispatch(
	enum plan_arch arch, const struct insn *insn, size_t prev, const uint8_t *bytes);

/*
 * Finds the jump table of the indirect jump @insn; parameters as above. Returns false if it is not
 * known.
 */
bool insn_table(enum plan_arch arch, const struct insn *insn, size_t prev,
	const uint8_t *bytes, struct insn_table *ret_table);

/* x86-64: true if @insn is lea ADDRESS(%rip), %reg. */
bool x86_loads_addr(const struct insn *insn, const uint8_t *bytes, uint8_t reg);

/*
 * True if @insn limits an index: either it compares with a number, and @jcc, the conditional jump
 * after it, excludes larger values; or it masks. *@ret_cnt is the number of remaining values.
 */
bool insn_index_bound(enum plan_arch arch, const struct insn *insn, const uint8_t *bytes,
	const struct insn *jcc, uint64_t *ret_cnt);

/*
 * True if the kernel accepts a probe on the instruction of @len bytes at @bytes and executes it
 * correctly. Otherwise, @why of @size bytes is the reason.
 */
bool insn_probe_ok(enum plan_arch arch, const uint8_t *bytes, size_t len,
	const struct plan_rules *rules, char *why, size_t size);

/* True if the kernel emulates the probed instruction, without a single step. */
bool insn_emulated(enum plan_arch arch, const uint8_t *bytes, size_t len,
	const struct plan_rules *rules);

/*
 * True if @insn can be the first instruction of a function. False for bytes that do not decode, a
 * privileged instruction, a word of zeros, and an instruction that reads flags that are not set
 * yet.
 */
bool insn_can_begin(enum plan_arch arch, const struct insn *insn, const uint8_t *bytes);

/*
 * True if @insn, with @left bytes from its first byte, may switch to another stack: it writes the
 * stack pointer from memory, a number, or a register other than the frame pointer. False for the
 * sequences of compilers that align the stack pointer, enlarge the frame, or undo the alignment.
 */
bool insn_switches_stack(
	enum plan_arch arch, const struct insn *insn, const uint8_t *bytes, size_t left);

/* x86-64: true for syscall, sysenter and int, after which the kernel may do anything. */
bool insn_is_system(const uint8_t *bytes, size_t len);

/* x86-64: true for endbr64; a function may be entered after it. */
bool insn_is_endbr(const uint8_t *bytes, size_t len);

/*
 * x86-64: true if the entry probe can move past this instruction. The instruction leaves memory,
 * the stack pointer and (unless @write_args) argument registers unchanged. It reads only memory
 * that is certainly mapped: the stack, the file's own data, the stack protector's word.
 *
 * If @frame is not negative, the instruction may also allocate stack space and write to it; @frame
 * is the number of bytes that the function has already allocated.
 */
bool insn_step_over(const uint8_t *bytes, size_t len, bool write_args, int32_t frame);

/* The value that an instruction writes to its one output register. */
enum insn_writes {
	INSN_WRITES_OTHER,
	INSN_WRITES_COPY,   /* the low .bits of register .from, and zeros above */
	INSN_WRITES_NUMBER, /* .number */
};

struct insn_effect {
	uint16_t writes; /* bit mask of written general registers, without the stack pointer */
	enum insn_writes how;
	uint8_t from, bits;
	uint64_t number;
};

/*
 * x86-64: true for an instruction that only moves or computes, costs almost nothing, and continues
 * with the next one. Instructions between the last branch and a ret are of this kind. *@ret_effect
 * is what it writes.
 */
bool insn_effect(const uint8_t *bytes, size_t len, struct insn_effect *ret_effect);

/* x86-64: whether the entry probe can move onto an instruction. */
enum insn_landing {
	INSN_LAND_NO,
	INSN_LAND_YES,    /* push, nop, call */
	INSN_LAND_BRANCH, /* jmp, jcc */
};
enum insn_landing insn_landing(const uint8_t *bytes, size_t len);

/* True if a PLT stub starts at @bytes, of which @len are readable. */
bool insn_is_plt(enum plan_arch arch, const uint8_t *bytes, size_t len);

/* Decodes the PLT stub at address @addr: *@ret_word is the GOT word that it jumps through. */
bool insn_plt_word(struct insn_decoder *dec, enum plan_arch arch, const uint8_t *bytes,
	size_t len, uint64_t addr, uint64_t *ret_word);

/* Formats the instruction in AT&T syntax; "(bad)" if it does not decode. */
void insn_text(struct insn_decoder *dec, const uint8_t *bytes, size_t len, uint64_t addr,
	char *buf, size_t size);
