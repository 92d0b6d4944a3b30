package jinja

// expr is an expression; eval computes its value.
type expr interface {
	eval(r *run, sc *scope) (Value, error)
}

// stmt is a piece of a template; exec writes its output.
type stmt interface {
	exec(r *run, sc *scope, out *builder) error
}

// Statements.
type (
	dataStmt   struct{ text string }
	outputStmt struct {
		e    expr
		line int
	}
	ifStmt struct {
		line  int
		tests []expr // tests[i] guards bodies[i]; one body more is the else
		body  [][]stmt
	}
	forStmt struct {
		line       int
		target     target
		iter, test expr // test may be nil
		recursive  bool
		body, none []stmt
	}
	setStmt struct {
		line   int
		target target
		value  expr
	}
	setBlockStmt struct {
		line    int
		target  target
		filters []filterExpr // applied in order; e is nil in each
		body    []stmt
	}
	macroStmt struct {
		line     int
		name     string
		params   []param
		body     []stmt
		varargs  bool // the body uses varargs
		kwargs   bool // the body uses kwargs
		isCaller bool // the body of a call block
	}
	callStmt struct {
		line   int
		call   *callExpr
		caller *macroStmt
	}
	filterStmt struct {
		line    int
		filters []filterExpr
		body    []stmt
	}
	withStmt struct {
		line    int
		targets []target
		values  []expr
		body    []stmt
	}
	blockStmt struct{ body []stmt } // generation and block tags: a body and nothing else
	jumpStmt  struct{ to error }    // break or continue
)

// param is a parameter of a macro.
type param struct {
	name string
	def  expr // nil if there is no default
}

// target is what a value is assigned to: a name, an attribute of a namespace, or
// several names to unpack into.
type target struct {
	name  string
	attr  string   // with name: an attribute of a namespace
	items []target // non-nil: unpack
}

// Expressions.
type (
	litExpr  struct{ v Value }
	nameExpr struct{ name string }
	attrExpr struct {
		obj  expr
		name string
	}
	itemExpr  struct{ obj, key expr }
	sliceExpr struct {
		obj               expr
		start, stop, step expr // nil if absent
	}
	listExpr struct {
		items []expr
		tuple bool
	}
	dictExpr  struct{ keys, vals []expr }
	unaryExpr struct {
		op string
		e  expr
	}
	binExpr struct {
		op   string
		a, b expr
	}
	logicExpr struct { // and, or
		or   bool
		a, b expr
	}
	compareExpr struct {
		first expr
		ops   []string
		rest  []expr
	}
	concatExpr struct{ items []expr }
	condExpr   struct{ test, yes, no expr } // no is nil without an else
	callExpr   struct {
		fn   expr
		args argExprs
	}
	filterExpr struct {
		e    expr
		name string
		args argExprs
	}
	testExpr struct {
		e    expr
		name string
		args argExprs
		not  bool
	}
)

// argExprs are the arguments of a call as written.
type argExprs struct {
	pos   []expr
	names []string // of kw
	kw    []expr
	star  expr // *args, nil if absent
	dstar expr // **kwargs, nil if absent
}
