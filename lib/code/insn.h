/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One instruction at a time: how long it is, where control goes, what it does to the stack
 * pointer, and whether the kernel may probe it. The disassembler is behind this header.
 *
 * Lengths and validity come from Capstone on x86-64; what an instruction means is read
 * from its opcode, so that releases of Capstone that name things differently agree. arm64
 * instructions are words of fixed meaning, Capstone gives only their text.
 */
#ifndef FUNCSNOOP_CODE_INSN_H
#define FUNCSNOOP_CODE_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/plan.h"

enum insn_flow {
	INSN_PLAIN,    /* goes on behind itself */
	INSN_JMP,      /* to .target */
	INSN_JCC,      /* to .target when .cond holds, else on */
	INSN_CALL,     /* to .target, if has_target, and usually back */
	INSN_RET,      /* to its caller, by the plain instruction */
	INSN_RET_AUTH, /* arm64 retaa and retab: the same, but they can't be probed */
	INSN_JMP_REG,  /* to where .reg points */
	INSN_JMP_MEM,  /* to the address in a memory word */
	INSN_TABLE,    /* a jump that only a jump table uses: stays in the function */
	INSN_STOP,     /* ud2, hlt, int3, brk: nothing behind it is reached from here */
	INSN_BAD,      /* no instruction that can be told; one byte, or an arm64 word */
	INSN_FAR,      /* far jumps, interrupt and system returns: not to be followed */
};

/* What is done to the stack pointer, sp, and to the frame pointer, fp. */
enum insn_sp {
	INSN_SP_KEEP,
	INSN_SP_ADD,     /* sp += .sp_arg */
	INSN_SP_TO_FP,   /* fp = sp + .sp_arg */
	INSN_SP_FROM_FP, /* sp = fp + .sp_arg */
	INSN_SP_LOST,    /* sp = something else */
};

/*
 * How an instruction refers to the stack. x86-64: by an address relative to the stack pointer or
 * the frame pointer, from which it reads or writes, or which it copies: to a register, to memory.
 */
enum insn_stack {
	INSN_STACK_NONE,
	INSN_STACK_SP,
	INSN_STACK_FP,
	INSN_STACK_SAVES_LR, /* arm64: stores the return address outside of the frame */
};

#define INSN_COND_NONE 255 /* a condition that a program can't evaluate: loop, xbegin */

struct insn {
	uint64_t addr;
	uint64_t target; /* of a direct jump or call */
	uint64_t data;   /* an address that it names and reads from, or takes */
	int32_t sp_arg;
	int32_t stack_at;  /* .stack: offset from that register */
	uint16_t stack_len; /* bytes that are accessed there, at most; 0: the address is copied */
	uint8_t len;
	uint8_t flow; /* enum insn_flow */
	uint8_t sp;   /* enum insn_sp */
	uint8_t cond; /* as in struct plan_end */
	uint8_t reg, bit, width;
	bool has_target : 1;
	bool nop : 1;  /* padding: a nop of any length, or a word of zeros */
	bool lock : 1; /* x86-64: begins with a lock prefix, which some code jumps over */
	bool sets_fp : 1; /* x86-64: the frame pointer gets a new value; not by pop or leave */
	bool indexed : 1;  /* JMP_MEM: the address has an index register */
	uint8_t stack : 2; /* enum insn_stack */
	bool has_data : 1;
	bool takes_addr : 1; /* .data is not read: lea, adr */
	/* the planner's */
	bool lands : 1; /* a jump table or the unwinder leads here */
	bool table_read : 1;
	bool astray : 1; /* something leads into its middle: if nothing leads to it, it is none */
};

/* How a jump finds its targets. */
enum insn_table_form {
	INSN_TABLE_REL32, /* table + a 32-bit difference */
	INSN_TABLE_ABS64, /* 64-bit addresses */
	INSN_TABLE_REL,   /* arm64: .anchor + a difference of .width bytes times .scale */
};

struct insn_table {
	enum insn_table_form form;
	uint64_t base;    /* where the table lies, or 0: what .base_reg holds */
	uint8_t base_reg; /* x86-64 */
	uint64_t anchor;
	uint8_t width, scale;
	bool is_signed;
};

/* Instructions in front of a jump among which its table is looked for. */
#define INSN_TABLE_LOOK 24

struct insn_decoder;

/* -ENOTSUP when Capstone lacks the architecture. Close with insn_close(). */
int insn_open(enum plan_arch arch, struct insn_decoder **ret_dec, struct err *err);
void insn_close(struct insn_decoder *dec);

/*
 * Decodes the instruction at @bytes, of which @len follow, that lies at @addr. False when
 * there is none, or when processors disagree about it.
 */
bool insn_decode(struct insn_decoder *dec, const uint8_t *bytes, size_t len,
	uint64_t addr, struct insn *ret_insn);

/*
 * Whether @insn, decoded from @bytes, is the jump that ends a jump table's dispatch, by the
 * instructions before it: @prev of them lie before @insn in the same array, and @bytes points
 * at @insn's own, with those of the others in front.
 */
bool insn_is_dispatch(
	enum plan_arch arch, const struct insn *insn, size_t prev, const uint8_t *bytes);

/*
 * Which table the indirect jump @insn takes its targets from; arguments as above. False when
 * that can't be told.
 */
bool insn_table(enum plan_arch arch, const struct insn *insn, size_t prev,
	const uint8_t *bytes, struct insn_table *ret_table);

/* x86-64: @insn is lea ADDRESS(%rip), %reg. */
bool x86_loads_addr(const struct insn *insn, const uint8_t *bytes, uint8_t reg);

/*
 * Whether @insn bounds an index: it compares with a number, and @jcc, the conditional jump
 * behind it, leaves out what is larger; or it masks. How many values are left goes to
 * @ret_cnt.
 */
bool insn_index_bound(enum plan_arch arch, const struct insn *insn, const uint8_t *bytes,
	const struct insn *jcc, uint64_t *ret_cnt);

/*
 * Whether the kernel may put a probe on the instruction of @len bytes at @bytes, and does it
 * right. Else a text in @why of @size bytes.
 */
bool insn_probe_ok(enum plan_arch arch, const uint8_t *bytes, size_t len,
	const struct plan_rules *rules, char *why, size_t size);

/* Whether the kernel emulates a probed instruction: no single step is needed. */
bool insn_emulated(enum plan_arch arch, const uint8_t *bytes, size_t len,
	const struct plan_rules *rules);

/*
 * Whether a function may begin with @insn: no instruction, a privileged one, a word of zeros
 * and one that reads flags which nobody has set yet can't be its first.
 */
bool insn_can_begin(enum plan_arch arch, const struct insn *insn, const uint8_t *bytes);

/*
 * Whether @insn, with @left bytes from its own first on, may move the stack pointer to another
 * stack: it is written from memory, from a number, or from a register other than the frame
 * pointer. What compilers do to align it, to enlarge the frame and to undo the former is not
 * meant.
 */
bool insn_switches_stack(
	enum plan_arch arch, const struct insn *insn, const uint8_t *bytes, size_t left);

/* x86-64: it enters the kernel, which may do anything: syscall, sysenter, int. */
bool insn_is_system(const uint8_t *bytes, size_t len);

/* x86-64: endbr64, which every function may be entered behind. */
bool insn_is_endbr(const uint8_t *bytes, size_t len);

/*
 * x86-64: whether an entry probe may stand behind this instruction as well as before it: it
 * leaves memory, the stack pointer and (unless @write_args) the registers that carry
 * arguments alone, and reads what is surely there: the stack, the file's own data, the
 * stack protector's word. With @frame not negative it may take room on the stack, of which
 * the function has so many bytes already, and write into them.
 */
bool insn_step_over(const uint8_t *bytes, size_t len, bool write_args, int32_t frame);

/* What an instruction leaves in the one register that it writes. */
enum insn_writes {
	INSN_WRITES_OTHER,
	INSN_WRITES_COPY,   /* the low .bits of register .from, and zeros above */
	INSN_WRITES_NUMBER, /* .number */
};

struct insn_effect {
	uint16_t writes; /* general registers but the stack pointer, a bit for each number */
	enum insn_writes how;
	uint8_t from, bits;
	uint64_t number;
};

/*
 * x86-64: whether an instruction does no more than moving and calculating, takes next to no time
 * and goes on behind itself, as those between the last branch and a ret do. What it writes goes
 * to @ret_effect.
 */
bool insn_effect(const uint8_t *bytes, size_t len, struct insn_effect *ret_effect);

/* x86-64: whether an entry probe is moved onto such an instruction. */
enum insn_landing {
	INSN_LAND_NO,
	INSN_LAND_YES,    /* push, nop, call */
	INSN_LAND_BRANCH, /* jmp, jcc */
};
enum insn_landing insn_landing(const uint8_t *bytes, size_t len);

/* A stub of the procedure linkage table begins at @bytes, of which @len follow. */
bool insn_is_plt(enum plan_arch arch, const uint8_t *bytes, size_t len);

/* Such a stub, which lies at @addr, jumps through the word at @ret_word. */
bool insn_plt_word(struct insn_decoder *dec, enum plan_arch arch, const uint8_t *bytes,
	size_t len, uint64_t addr, uint64_t *ret_word);

/* Its text, AT&T syntax; "(bad)" when there is none. */
void insn_text(struct insn_decoder *dec, const uint8_t *bytes, size_t len, uint64_t addr,
	char *buf, size_t size);

#endif
