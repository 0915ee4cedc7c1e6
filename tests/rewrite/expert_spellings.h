// Mixtures of experts in the spellings that exporters have for them, as graphs in text.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace opweld {

inline constexpr int kExpertWidth = 12;
inline constexpr int kExpertInner = 20;

struct ExpertSpelling {
  // How a token's share of an expert comes about: scatter, one_hot, select, product (of a
  // comparison), rows (those of tokens that chose it, selected), slots (of NonZero), batch; stack
  // (of branches, weighed in a product); einsum (over stacked weights, tokens in front); or
  // matrices gathered for each choice: gathered (times rows), flat (times columns, all choices in
  // one axis), below and beside (all choices of a token in one product).
  std::string share = "scatter";
  // gated, gate_up (one matrix for both), relu, biases.
  std::string expert = "gated";
  int experts = 5;
  int choices = 2;
  bool normalised = true;
  std::vector<int> order = {};  // in which they are added; empty: by number
  std::string before = "zero";  // what they are added to: zero, nothing, shared (another expert)
  // In place of the activation of that expert, in the relu spelling; -1: of none.
  int odd_one = -1;
  std::string extra = "";    // statements before the return
  std::string returns = "";  // further results
};

// The expert that ends in %y_NAME, from rows %x.
inline std::string expert_text(const std::string& kind, const std::string& name, int seed,
                               const std::string& activation) {
  const auto matrix = [&](const std::string& what, int rows, int columns, int of) {
    return fmt::format("    %{}_{} = constant {{value = f32[{}, {}] random {}}}\n", what, name,
                       rows, columns, 10 * seed + of);
  };
  const int wide = kExpertWidth;
  const int inner = kExpertInner;
  std::string text;
  if (kind == "gated") {
    text += matrix("g", wide, inner, 1) + matrix("u", wide, inner, 2) + matrix("d", inner, wide, 3);
    text += fmt::format(
        "    %a_{0} = matmul(%x, %g_{0}) @\"{0}.gate\"\n"
        "    %b_{0} = silu(%a_{0})\n"
        "    %c_{0} = matmul(%x, %u_{0}) @\"{0}.up\"\n"
        "    %h_{0} = mul(%b_{0}, %c_{0})\n",
        name);
  } else if (kind == "gate_up") {
    text += matrix("gu", wide, 2 * inner, 1) + matrix("d", inner, wide, 3);
    text += fmt::format(
        "    %gu2_{0} = matmul(%x, %gu_{0})\n"
        "    %a_{0} = slice(%gu2_{0}) {{starts = <0, 0>, sizes = <t, {1}>, steps = [1, 1]}}\n"
        "    %c_{0} = slice(%gu2_{0}) {{starts = <0, {1}>, sizes = <t, {1}>, steps = [1, 1]}}\n"
        "    %b_{0} = silu(%a_{0})\n"
        "    %h_{0} = mul(%b_{0}, %c_{0})\n",
        name, inner);
  } else {
    text += matrix("u", wide, inner, 1) + matrix("d", inner, wide, 3);
    const bool biases = kind == "biases";
    if (biases) text += matrix("p", 1, inner, 4) + matrix("q", 1, wide, 5);
    text += fmt::format("    %c_{0} = matmul(%x, %u_{0})\n", name);
    if (biases) text += fmt::format("    %e_{0} = add(%c_{0}, %p_{0})\n", name);
    text += fmt::format("    %h_{0} = {1}(%{2}_{0}) @\"{0}.act\"\n", name, activation,
                        biases ? "e" : "c");
    if (biases) {
      return text + fmt::format(
                        "    %f_{0} = matmul(%h_{0}, %d_{0})\n"
                        "    %y_{0} = add(%q_{0}, %f_{0})\n",
                        name);
    }
  }
  return text + fmt::format("    %y_{0} = matmul(%h_{0}, %d_{0}) @\"{0}.down\"\n", name);
}

// The router up to %best, %which and %w.
inline std::string router_text(const ExpertSpelling& of) {
  return fmt::format(
             "graph moe(%x: f32[t, {0}], %router: f32[{0}, {1}]) {{\n"
             "    %logits = matmul(%x, %router)\n"
             "    %p = softmax(%logits) {{axis = -1}}\n"
             "    %best, %which = top_k(%p) {{axis = 1, k = <{2}>}} @\"router\"\n"
             "    %total = reduce_sum(%best) {{axes = [1], keepdims = 1}}\n"
             "    %normal = div(%best, %total)\n"
             "    %none = constant {{value = f32[] {{0.0}}}}\n",
             kExpertWidth, of.experts, of.choices) +
         (of.normalised ? "    %w = mul(%normal, %one)\n" : "    %w = mul(%best, %one)\n");
}

// Statements that all experts' shares come from.
inline std::string shares_text(const ExpertSpelling& of) {
  if (of.share == "scatter" || of.share == "batch" || of.share == "stack") {
    return fmt::format(
        "    %zeros = expand(%none) {{shape = <t, {}>}}\n"
        "    %shares = scatter_elements(%zeros, %which, %w) {{axis = 1, reduction = \"none\"}}\n",
        of.experts);
  }
  if (of.share == "one_hot" || of.share == "slots") {
    return fmt::format(
        "    %pair = constant {{value = f32[2] {{0.0, 1.0}}}}\n"
        "    %hot = one_hot(%which, %pair) {{axis = 2, depth = <{0}>}}\n"
        "    %column = reshape(%w) {{shape = <t, {1}, 1>}}\n"
        "    %weighted = mul(%column, %hot)\n"
        "    %shares = reduce_sum(%weighted) {{axes = [1], keepdims = 0}}\n"
        "    %by_expert = transpose(%hot) {{permutation = [2, 1, 0]}}\n"
        "    %slot_weight = transpose(%column) {{permutation = [1, 0, 2]}}\n",
        of.experts, of.choices);
  }
  if (of.share == "einsum") {  // tke,tk->te
    return fmt::format(
        "    %pair = constant {{value = f32[2] {{0.0, 1.0}}}}\n"
        "    %hot = one_hot(%which, %pair) {{axis = 2, depth = <{0}>}}\n"
        "    %turned = transpose(%hot) {{permutation = [0, 2, 1]}}\n"
        "    %column = reshape(%w) {{shape = <t, {1}, 1>}}\n"
        "    %shares = matmul(%turned, %column)\n",
        of.experts, of.choices);
  }
  return "";
}

// Of one expert, up to %t_NAME, what it adds.
inline std::string term_text(const ExpertSpelling& of, const std::string& name, int expert) {
  if (of.share == "slots") {
    return fmt::format(
        "    %n_{0} = constant {{value = i64[] {{{1}}}}}\n"
        "    %m_{0} = gather(%by_expert, %n_{0}) {{axis = 0}}\n"
        "    %is_{0} = cast(%m_{0}) {{to = bool}}\n"
        "    %mask_{0} = reshape(%is_{0}) {{shape = <{2}, t, 1>}}\n"
        "    %all_{0} = mul(%y_{0}, %slot_weight)\n"
        "    %mine_{0} = select(%mask_{0}, %all_{0}, %none)\n"
        "    %t_{0} = reduce_sum(%mine_{0}) {{axes = [0], keepdims = 0}}\n",
        name, expert, of.choices);
  }
  std::string text;
  if (of.share == "scatter" || of.share == "one_hot") {
    text = fmt::format(
        "    %s_{} = slice(%shares) {{starts = <0, {}>, sizes = <t, 1>, steps = [1, 1]}}\n", name,
        expert);
  } else {
    text = fmt::format(
        "    %n_{0} = constant {{value = i64[] {{{1}}}}}\n    %is_{0} = eq(%which, %n_{0})\n", name,
        expert);
    text += of.share == "select" ? fmt::format("    %ws_{0} = select(%is_{0}, %w, %none)\n", name)
                                 : fmt::format(
                                       "    %i_{0} = cast(%is_{0}) {{to = f32}}\n"
                                       "    %ws_{0} = mul(%w, %i_{0})\n",
                                       name);
    text += fmt::format("    %s_{0} = reduce_sum(%ws_{0}) {{axes = [1], keepdims = 1}}\n", name);
  }
  if (of.share == "rows") {
    return text + fmt::format(
                      "    %any_{0} = reduce_sum(%i_{0}) {{axes = [1], keepdims = 1}}\n"
                      "    %chose_{0} = gt(%any_{0}, %none)\n"
                      "    %all_{0} = mul(%y_{0}, %s_{0})\n"
                      "    %t_{0} = select(%chose_{0}, %all_{0}, %none)\n",
                      name);
  }
  return text + fmt::format("    %t_{0} = mul(%y_{0}, %s_{0})\n", name);
}

// All at once; gated.
inline std::string batch_text(const ExpertSpelling& of) {
  return fmt::format(
      "    %wg = constant {{value = f32[{0}, {1}, {2}] random 1}}\n"
      "    %wu = constant {{value = f32[{0}, {1}, {2}] random 2}}\n"
      "    %wd = constant {{value = f32[{0}, {2}, {1}] random 3}}\n"
      "    %front = reshape(%x) {{shape = <1, t, {1}>}}\n"
      "    %a = matmul(%front, %wg) @\"gate\"\n    %b = silu(%a)\n"
      "    %c = matmul(%front, %wu) @\"up\"\n"
      "    %h = mul(%b, %c)\n    %each = matmul(%h, %wd) @\"down\"\n"
      "    %turned = transpose(%shares) {{permutation = [1, 0]}}\n"
      "    %scale = reshape(%turned) {{shape = <{0}, t, 1>}}\n"
      "    %scaled = mul(%each, %scale)\n"
      "    %y = reduce_sum(%scaled) {{axes = [0], keepdims = 0}}\n",
      of.experts, kExpertWidth, kExpertInner);
}

// td,edf->tef and tef,efd->ted over stacked weights, then ted,te->td; gated.
inline std::string einsum_text(const ExpertSpelling& of) {
  return fmt::format(
      "    %wg = constant {{value = f32[{1}, {3}] random 1}}\n"
      "    %wu = constant {{value = f32[{1}, {3}] random 2}}\n"
      "    %wd = constant {{value = f32[{0}, {2}, {1}] random 3}}\n"
      "    %bu = constant {{value = f32[{0}, {2}] random 4}}\n"
      "    %ga = matmul(%x, %wg) @\"gate\"\n    %ua = matmul(%x, %wu) @\"up\"\n"
      "    %a = reshape(%ga) {{shape = <t, {0}, {2}>}}\n"
      "    %c = reshape(%ua) {{shape = <t, {0}, {2}>}}\n"
      "    %b = silu(%a)\n    %cb = add(%c, %bu)\n    %h = mul(%b, %cb)\n"
      "    %front = transpose(%h) {{permutation = [1, 0, 2]}}\n"
      "    %each = matmul(%front, %wd) @\"down\"\n"
      "    %last = transpose(%each) {{permutation = [1, 2, 0]}}\n"
      "    %sum = matmul(%last, %shares)\n    %y = reshape(%sum) {{shape = <t, {1}>}}\n",
      of.experts, kExpertWidth, kExpertInner, of.experts * kExpertInner);
}

// By the matrices of each choice; gated.
inline std::string gathered_text(const ExpertSpelling& of) {
  return fmt::format(
      "    %wgu = constant {{value = f32[{0}, {1}, {3}] random 1}}\n"
      "    %wd = constant {{value = f32[{0}, {2}, {1}] random 3}}\n"
      "    %lifted = reshape(%x) {{shape = <t, 1, 1, {1}>}}\n"
      "    %rows = expand(%lifted) {{shape = <t, {4}, 1, {1}>}}\n"
      "    %mgu = gather(%wgu, %which) {{axis = 0}}\n    %md = gather(%wd, %which) {{axis = 0}}\n"
      "    %gu = matmul(%rows, %mgu) @\"gate_up\"\n"
      "    %a = slice(%gu) {{starts = <0, 0, 0, 0>, sizes = <t, {4}, 1, {2}>, steps = [1, 1, 1, "
      "1]}}\n"
      "    %c = slice(%gu) {{starts = <0, 0, 0, {2}>, sizes = <t, {4}, 1, {2}>, "
      "steps = [1, 1, 1, 1]}}\n"
      "    %b = silu(%a)\n    %h = mul(%b, %c)\n"
      "    %each = matmul(%h, %md) @\"down\"\n"
      "    %flat = reshape(%each) {{shape = <t, {4}, {1}>}}\n"
      "    %scale = reshape(%w) {{shape = <t, {4}, 1>}}\n    %scaled = mul(%flat, %scale)\n"
      "    %y = reduce_sum(%scaled) {{axes = [1], keepdims = 0}}\n",
      of.experts, kExpertWidth, kExpertInner, 2 * kExpertInner, of.choices);
}

// The same with all choices in one axis and matrices [out, in]; with biases.
inline std::string flat_text(const ExpertSpelling& of) {
  return fmt::format(
      "    %wg = constant {{value = f32[{0}, {2}, {1}] random 1}}\n"
      "    %wu = constant {{value = f32[{0}, {2}, {1}] random 2}}\n"
      "    %wd = constant {{value = f32[{0}, {1}, {2}] random 3}}\n"
      "    %bd = constant {{value = f32[{0}, {1}] random 4}}\n"
      "    %number = iota {{shape = <t>, axis = 0, dtype = i64}}\n"
      "    %column = reshape(%number) {{shape = <t, 1>}}\n"
      "    %repeated = expand(%column) {{shape = <t, {3}>}}\n"
      "    %token = reshape(%repeated) {{shape = <{3}*t>}}\n"
      "    %ids = reshape(%which) {{shape = <{3}*t>}}\n"
      "    %rows = gather(%x, %token) {{axis = 0}}\n"
      "    %columns = reshape(%rows) {{shape = <{3}*t, {1}, 1>}}\n"
      "    %mg = gather(%wg, %ids) {{axis = 0}}\n    %mu = gather(%wu, %ids) {{axis = 0}}\n"
      "    %md = gather(%wd, %ids) {{axis = 0}}\n    %vd = gather(%bd, %ids) {{axis = 0}}\n"
      "    %g = matmul(%mg, %columns) @\"gate\"\n    %u = matmul(%mu, %columns) @\"up\"\n"
      "    %a = silu(%g)\n    %h = mul(%a, %u)\n    %d = matmul(%md, %h) @\"down\"\n"
      "    %out = reshape(%d) {{shape = <{3}*t, {1}>}}\n    %each = add(%out, %vd)\n"
      "    %scale = reshape(%w) {{shape = <{3}*t, 1>}}\n    %scaled = mul(%each, %scale)\n"
      "    %apart = reshape(%scaled) {{shape = <t, {3}, {1}>}}\n"
      "    %y = reduce_sum(%apart) {{axes = [1], keepdims = 0}}\n",
      of.experts, kExpertWidth, kExpertInner, of.choices);
}

// "bk,bekc->bec" or "beck,bk->bec" by the matrices of all choices at once, "beck,bek->bec", and
// "bec,be->bc" for the sum; with biases. The matrices of the first products are [out, in] and below
// each other, or `beside` [in, out] and beside each other.
inline std::string together_text(const ExpertSpelling& of, bool beside) {
  std::string text = fmt::format(
      "    %wd = constant {{value = f32[{0}, {1}, {2}] random 3}}\n"
      "    %bu = constant {{value = f32[{0}, {2}] random 4}}\n"
      "    %bd = constant {{value = f32[{0}, {1}] random 5}}\n",
      of.experts, kExpertWidth, kExpertInner);
  for (const char* name : {"g", "u"}) {
    if (beside) {
      text += fmt::format(
          "    %w{0} = constant {{value = f32[{1}, {2}, {3}] random 1}}\n"
          "    %m{0} = gather(%w{0}, %which) {{axis = 0}}\n"
          "    %t{0} = transpose(%m{0}) {{permutation = [0, 2, 1, 3]}}\n"
          "    %a{0} = reshape(%t{0}) {{shape = <t, {2}, {5}>}}\n"
          "    %x{0} = reshape(%x) {{shape = <t, 1, {2}>}}\n"
          "    %p{0} = matmul(%x{0}, %a{0}) @\"{0}\"\n",
          name, of.experts, kExpertWidth, kExpertInner, 0, of.choices * kExpertInner);
    } else {
      text += fmt::format(
          "    %w{0} = constant {{value = f32[{1}, {3}, {2}] random 1}}\n"
          "    %m{0} = gather(%w{0}, %which) {{axis = 0}}\n"
          "    %a{0} = reshape(%m{0}) {{shape = <t, {4}, {2}>}}\n"
          "    %x{0} = reshape(%x) {{shape = <t, {2}, 1>}}\n"
          "    %p{0} = matmul(%a{0}, %x{0}) @\"{0}\"\n",
          name, of.experts, kExpertWidth, kExpertInner, of.choices * kExpertInner);
    }
    text += fmt::format("    %r{0} = reshape(%p{0}) {{shape = <t, {1}, {2}>}}\n", name, of.choices,
                        kExpertInner);
  }
  return text +
         fmt::format(
             "    %vu = gather(%bu, %which) {{axis = 0}}\n"
             "    %vd = gather(%bd, %which) {{axis = 0}}\n"
             "    %ub = add(%ru, %vu)\n    %act = silu(%rg)\n    %h = mul(%act, %ub)\n"
             "    %md = gather(%wd, %which) {{axis = 0}}\n"
             "    %hc = reshape(%h) {{shape = <t, {2}, {1}, 1>}}\n"
             "    %d = matmul(%md, %hc) @\"down\"\n"
             "    %each = reshape(%d) {{shape = <t, {2}, {0}>}}\n"
             "    %biased = add(%each, %vd)\n",
             kExpertWidth, kExpertInner, of.choices) +
         (beside ? fmt::format("    %row = reshape(%w) {{shape = <t, 1, {0}>}}\n"
                               "    %sum = matmul(%row, %biased)\n",
                               of.choices)
                 : fmt::format("    %turned = transpose(%biased) {{permutation = [0, 2, 1]}}\n"
                               "    %column = reshape(%w) {{shape = <t, {0}, 1>}}\n"
                               "    %sum = matmul(%turned, %column)\n",
                               of.choices)) +
         fmt::format("    %y = reshape(%sum) {{shape = <t, {}>}}\n", kExpertWidth);
}

// Branches put beside each other, and te,ted->td.
inline std::string stack_text(const ExpertSpelling& of) {
  std::string text;
  std::vector<std::string> names;
  for (int expert = 0; expert < of.experts; ++expert) {
    const std::string name = fmt::format("x{}", expert);
    text += expert_text(of.expert, name, expert + 1, expert == of.odd_one ? "tanh" : "relu");
    text +=
        fmt::format("    %one_{0} = reshape(%y_{0}) {{shape = <t, 1, {1}>}}\n", name, kExpertWidth);
    names.push_back("%one_" + name);
  }
  return text + fmt::format(
                    "    %all = concat({}) {{axis = 1}}\n"
                    "    %row = reshape(%shares) {{shape = <t, 1, {}>}}\n"
                    "    %sum = matmul(%row, %all)\n    %y = reshape(%sum) {{shape = <t, {}>}}\n",
                    fmt::join(names, ", "), of.experts, kExpertWidth);
}

inline std::string experts_text(const ExpertSpelling& of) {
  std::string text = router_text(of);
  text.insert(text.find("    %w = "), "    %one = constant {value = f32[] {1.0}}\n");
  text += shares_text(of);
  if (of.share == "batch") {
    text += batch_text(of);
  } else if (of.share == "einsum") {
    text += einsum_text(of);
  } else if (of.share == "stack") {
    text += stack_text(of);
  } else if (of.share == "gathered" || of.share == "flat") {
    text += of.share == "flat" ? flat_text(of) : gathered_text(of);
  } else if (of.share == "below" || of.share == "beside") {
    text += together_text(of, of.share == "beside");
  } else {
    std::vector<int> order = of.order;
    for (int expert = 0; of.order.empty() && expert < of.experts; ++expert) order.push_back(expert);
    std::string sum;
    if (of.before == "zero") {
      text += fmt::format("    %sum = expand(%none) {{shape = <t, {}>}}\n", kExpertWidth);
      sum = "sum";
    } else if (of.before == "shared") {
      text += expert_text("gated", "shared", 99, "relu");
      sum = "y_shared";
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      const int expert = order[i];
      // A name of its own where an expert is added twice.
      const std::string name = fmt::format("x{}", i);
      const std::string activation = expert == of.odd_one ? "tanh" : "relu";
      text += expert_text(of.expert, name, expert + 1, activation) + term_text(of, name, expert);
      if (sum.empty()) {
        sum = "t_" + name;
        continue;
      }
      text += fmt::format("    %sum_{0} = add(%{1}, %t_{0})\n", name, sum);
      sum = "sum_" + name;
    }
    text += fmt::format("    %y = mul(%{}, %one)\n", sum);
  }
  return text + of.extra + "    return %y as \"y\"" + of.returns + "\n}\n";
}

}  // namespace opweld
