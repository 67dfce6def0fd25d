// Evaluates CEL expressions as Kubernetes does, so that our engine can be held against it: reads cases as JSON
// lines, writes what became of each as JSON lines.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

type testCase struct {
	Expr   string                           `json:"expr"`
	Schema *apiextensionsv1.JSONSchemaProps `json:"schema,omitempty"`
	Self   json.RawMessage                  `json:"self,omitempty"`
}

type outcome struct {
	Issues   string     `json:"issues,omitempty"`
	Type     string     `json:"type,omitempty"`
	Estimate *[2]uint64 `json:"estimate,omitempty"`
	Fault    string     `json:"fault,omitempty"`
	Value    string     `json:"value,omitempty"`
	Cost     *uint64    `json:"cost,omitempty"`
}

// The type's sizes, by the path on which an expression reaches it.
type sizes struct{ root *apiservercel.DeclType }

func (s *sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	if len(element.Path()) == 0 || s.root == nil {
		return nil
	}
	current := s.root
	for _, name := range element.Path()[1:] {
		switch name {
		case "@items", "@values":
			if current.ElemType == nil {
				return nil
			}
			current = current.ElemType
		case "@keys":
			if current.KeyType == nil {
				return nil
			}
			current = current.KeyType
		default:
			field, ok := current.Fields[name]
			if !ok {
				return nil
			}
			current = field.Type
		}
	}
	return &checker.SizeEstimate{Min: 0, Max: uint64(current.MaxElements)}
}

func (s *sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

func show(v ref.Val) string {
	switch t := v.(type) {
	case traits.Mapper:
		var entries []string
		for it := t.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			if k == nil {
				continue
			}
			entries = append(entries, show(k)+": "+show(t.Get(k)))
		}
		sort.Strings(entries)
		return fmt.Sprintf("map%v", entries)
	case traits.Lister:
		items := []string{}
		for it := t.Iterator(); it.HasNext() == types.True; {
			items = append(items, show(it.Next()))
		}
		return fmt.Sprintf("list%q", items)
	case types.String:
		return fmt.Sprintf("%q", string(t))
	case types.Bytes:
		return fmt.Sprintf("b%q", string(t))
	case types.Null:
		return "null"
	case *types.Optional:
		if !t.HasValue() {
			return "none"
		}
		return "optional(" + show(t.GetValue()) + ")"
	case types.Uint:
		return fmt.Sprintf("%du", uint64(t))
	case types.Double:
		return fmt.Sprintf("%vd", float64(t))
	case types.Duration:
		return fmt.Sprintf("duration(%d)", int64(t.Duration))
	case types.Timestamp:
		return fmt.Sprintf("timestamp(%d.%09d)", t.Unix(), t.Nanosecond())
	case *types.Type:
		return "type(" + t.TypeName() + ")"
	}
	return fmt.Sprintf("%v", v.Value())
}

func run(c testCase) (out outcome) {
	base := environment.MustBaseEnvSet(version.MajorMinor(1, 35))
	var root *apiservercel.DeclType
	var self ref.Val = types.NullValue
	opts := environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0)}
	var structural *schema.Structural
	if c.Schema != nil {
		internal := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(c.Schema, internal, nil); err != nil {
			return outcome{Issues: err.Error()}
		}
		var err error
		structural, err = schema.NewStructural(internal)
		if err != nil {
			return outcome{Issues: err.Error()}
		}
		root = model.SchemaDeclType(structural, structural.XEmbeddedResource)
		if root == nil {
			return outcome{Issues: "no declaration"}
		}
		root = root.MaybeAssignTypeName("selfType")
		opts.DeclTypes = []*apiservercel.DeclType{root}
		opts.EnvOptions = []cel.EnvOption{cel.Variable("self", root.CelType())}
	} else {
		opts.EnvOptions = []cel.EnvOption{cel.Variable("self", cel.DynType)}
	}
	set, err := base.Extend(opts)
	if err != nil {
		return outcome{Issues: err.Error()}
	}
	env := set.NewExpressionsEnv()
	ast, issues := env.Compile(c.Expr)
	if issues != nil {
		return outcome{Issues: issues.String()}
	}
	out.Type = checker.FormatCELType(ast.OutputType())
	estimate, err := env.EstimateCost(ast, &library.CostEstimator{SizeEstimator: &sizes{root}})
	if err != nil {
		out.Fault = err.Error()
		return out
	}
	out.Estimate = &[2]uint64{estimate.Min, estimate.Max}
	prog, err := env.Program(ast)
	if err != nil {
		out.Fault = "program: " + err.Error()
		return out
	}
	if c.Self != nil {
		var data any
		decoder := json.NewDecoder(bytesOf(c.Self))
		decoder.UseNumber()
		if err := decoder.Decode(&data); err != nil {
			return outcome{Issues: err.Error()}
		}
		data = numbers(data)
		if structural != nil {
			self = common.UnstructuredToVal(data, &model.Structural{Structural: structural})
		} else {
			self = types.DefaultTypeAdapter.NativeToValue(data)
		}
	}
	value, details, err := prog.ContextEval(context.Background(), map[string]any{"self": self})
	if details != nil && details.ActualCost() != nil {
		cost := *details.ActualCost()
		out.Cost = &cost
	}
	if err != nil {
		out.Fault = err.Error()
		return out
	}
	out.Value = show(value)
	return out
}

func numbers(data any) any {
	switch t := data.(type) {
	case json.Number:
		if i, err := t.Int64(); err == nil {
			return i
		}
		f, _ := t.Float64()
		return f
	case []any:
		for i := range t {
			t[i] = numbers(t[i])
		}
	case map[string]any:
		for k := range t {
			t[k] = numbers(t[k])
		}
	}
	return data
}

func functions() {
	env := environment.MustBaseEnvSet(version.MajorMinor(1, 35)).NewExpressionsEnv()
	var lines []string
	for _, f := range env.Functions() {
		for i, o := range f.OverloadDecls() {
			args := ""
			for i, a := range o.ArgTypes() {
				if i > 0 {
					args += ", "
				}
				args += checker.FormatCELType(a)
			}
			style := "function"
			if o.IsMemberFunction() {
				style = "method"
			}
			lines = append(lines, fmt.Sprintf("%s %03d %s %s (%s) %s", f.Name(), i, style, o.ID(), args, checker.FormatCELType(o.ResultType())))
		}
	}
	sort.Strings(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
}

func main() {
	_ = math.MaxInt
	if len(os.Args) > 1 && os.Args[1] == "functions" {
		functions()
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<26)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	for in.Scan() {
		var c testCase
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, err, in.Text())
			os.Exit(1)
		}
		if err := encoder.Encode(run(c)); err != nil {
			os.Exit(1)
		}
	}
}
