package main

import (
	"fmt"
	"os"
)

func main() {
	for name, content := range generate() {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// generate returns every file by name.
func generate() map[string][]byte {
	files := map[string][]byte{}
	decl := newFile("package cpu", "", "// The functions below have no bounds checks: their callers check.")
	for _, s := range []*isa{avx2, avx512} {
		g := newFile(`#include "go_asm.h"`, `#include "textflag.h"`)
		gemms(g, s)
		files["gemm_"+s.file+"_amd64.s"] = g.bytes()
		a := newFile(`#include "go_asm.h"`, `#include "textflag.h"`)
		attends(a, s)
		files["attend_"+s.file+"_amd64.s"] = a.bytes()
		v := newFile(`#include "textflag.h"`)
		constants(v)
		rows(v, s)
		files["rows_"+s.file+"_amd64.s"] = v.bytes()
		declare(decl, s)
	}
	p := newFile(`#include "textflag.h"`)
	packFour(p)
	packTwo(p)
	files["pack_amd64.s"] = p.bytes()
	for _, name := range []string{"packFour", "packTwo"} {
		declareOne(decl, name+"(dst, src *float32, quads, ldBytes, strideBytes int)")
	}
	files["decl_amd64.go"] = decl.bytes()
	quantFiles(files)
	return files
}

// declare writes the Go declarations of an instruction set's kernels.
func declare(f *file, s *isa) {
	for _, d := range []string{
		"gemmF32%s(args *Gemm)",
		"gemmF16%s(args *Gemm)",
		"gemmBF16%s(args *Gemm)",
		"scoresF32%s(args *Attend)",
		"scoresF16%s(args *Attend)",
		"scoresBF16%s(args *Attend)",
		"scoresI8%s(args *Attend)",
		"valuesF32%s(args *Attend)",
		"valuesF16%s(args *Attend)",
		"valuesBF16%s(args *Attend)",
		"valuesI8%s(args *Attend)",
		"sumSquares%s(x *float32, groups int, acc *lanes)",
		"scaleMul%s(dst, x, w *float32, groups int, scale float32)",
		"scale%s(dst, x *float32, groups int, scale float32)",
		"blend%s(dst, x *float32, groups int, a, b float32)",
		"siluMul%s(dst, gate, up *float32, groups int)",
		"geluMul%s(dst, gate, up *float32, groups int)",
		"softCap%s(x *float32, groups int, inner, outer, limit float32)",
		"softmax%s(x *float32, rows, groups, strideBytes int, scale float32, largest, total *float32)",
		"exp2Row%s(x *float32, groups int)",
	} {
		declareOne(f, fmt.Sprintf(d, s.name))
	}
	declareStores(f, s)
}

func declareOne(f *file, signature string) {
	f.line("")
	f.line("//go:noescape")
	f.line("func %s", signature)
}
