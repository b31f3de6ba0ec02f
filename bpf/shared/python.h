/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Python frames: the layout of an interpreter's structures, and what is stored of code
 * objects.
 */
#pragma once

/* How the Python frames of one call of the interpreter's C function are delimited. */
enum fsn_python_how {
	FSN_PYTHON_EACH,  /* 3.10: one frame per call */
	FSN_PYTHON_ENTRY, /* 3.11: a flag in the outermost frame */
	/* since 3.12: a frame without code on the C stack, after the outermost */
	FSN_PYTHON_SHIM,
	/* 3.8, 3.9: one frame per call, without data on the C stack: all calls are counted */
	FSN_PYTHON_COUNT,
};

/* Offsets, from the start of the containing object. */
struct fsn_python {
	/*
	 * Addresses in memory; in a table of the kernel, relative to the file's first
	 * byte.
	 */
	unsigned long long runtime, code_type;
	unsigned short interpreters;              /* in _PyRuntime */
	unsigned short next_interpreter, threads; /* in PyInterpreterState */
	unsigned short next_thread, thread,
		number;         /* in PyThreadState; .number 0: none */
	unsigned short frame;   /* in PyThreadState: the innermost frame, */
	/*
	 * or its offset in the struct that .frame points to; -1: .frame points to the
	 * frame
	 */
	short in_cframe;
	/* until 3.11, in PyThreadState: the innermost call's struct on the C stack, */
	unsigned short cframe;
	unsigned short outer_cframe; /* in that struct: the next outer one, */
	/* 3.10, in PyThreadState: the one that belongs to no call */
	unsigned short root_cframe;
	unsigned short code, previous, at, owner;                   /* in a frame */
	unsigned short file, name, lines, first_line, instructions; /* in PyCodeObject */
	unsigned short type;                                        /* in any object */
	/* sizes of the headers of strings */
	unsigned short ascii, compact;
	unsigned char minor, how; /* of 3.x; enum fsn_python_how */
	unsigned char shim, pad;  /* .owner of the frame without code */
	/* bytes to read of a frame and of a code object */
	unsigned short frame_bytes, code_bytes;
};

#define FSN_PYTHONS 64 /* interpreters: different files */

/* Bytes read of a frame and of a code object, and fixed offsets in PyUnicode since 3.3. */
#define FSN_PYTHON_FRAME_BYTES 128
#define FSN_PYTHON_CODE_BYTES  256
#define FSN_PYTHON_TEXT_LEN    16 /* length of a string */
/* bits 2 to 4: bytes per character, 5: compact, 6: ASCII */
#define FSN_PYTHON_TEXT_STATE  32
#define FSN_PYTHON_BYTES_LEN   16 /* length of a bytes object */
#define FSN_PYTHON_BYTES       32 /* its content */

/*
 * A Python frame on a stack: this value replaces the file's number; 1 + the number of its
 * code object and the index of its instruction follow.
 */
#define FSN_FRAME_PYTHON      0xfffeULL
#define FSN_PYTHON_CODE_SHIFT 24
#define FSN_PYTHON_AT_NONE    0xffffffU /* not started */

#define FSN_PYTHON_CODES  2048
#define FSN_PYTHON_PIECES 8192 /* of line tables */
#define FSN_PYTHON_PIECE  256
#define FSN_PYTHON_LINES  16384 /* a longer table is truncated */
#define FSN_PYTHON_NAME   152
#define FSN_PYTHON_FILE   320

/* Recorded code objects: alike in all processes, claimed by hash, never freed. */
struct fsn_python_code {
	unsigned long long hash;
	unsigned int first_piece; /* of its line table */
	unsigned int ready;       /* completely written */
	/* bytes of the line table; 0: dropped because the table of pieces was full */
	unsigned int lines;
	unsigned int first_line;
	unsigned int name_len, file_len;             /* in characters */
	unsigned char name_kind, file_kind;          /* bytes per character */
	unsigned char minor, pad[5];
	char name[FSN_PYTHON_NAME]; /* of a longer name, the start */
	char file[FSN_PYTHON_FILE]; /* of a longer path, the end */
};

struct fsn_python_lines {
	unsigned char bytes[FSN_PYTHON_PIECE];
};
