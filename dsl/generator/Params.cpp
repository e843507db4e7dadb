#include "dsl/generator/Params.h"

#include "dsl/generator/Create.h"
#include "dsl/generator/Load.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <stdexcept>

namespace kiln {

namespace {

using Halide::Internal::GeneratorBase;
using Halide::Internal::GeneratorParamBase;
using Halide::Internal::GeneratorParamInfo;

// Halide offers no way to list GeneratorParams. An explicit instantiation may name private members, and hands
// them out here; nothing is changed through them.
template<class Tag, auto Member>
struct Access {
    friend constexpr auto member_of(Tag) { return Member; }
};

#define KILN_ACCESS(TAG, MEMBER)                                                                             \
    struct TAG {                                                                                             \
        friend constexpr auto member_of(TAG);                                                                \
    };                                                                                                       \
    template struct Access<TAG, MEMBER>;

KILN_ACCESS(ParamInfoOf, &GeneratorBase::param_info)
KILN_ACCESS(CTypeOf, &GeneratorParamBase::get_c_type)
KILN_ACCESS(TypeDeclsOf, &GeneratorParamBase::get_type_decls)
KILN_ACCESS(DefaultOf, &GeneratorParamBase::get_default_value)
KILN_ACCESS(IsSyntheticOf, &GeneratorParamBase::is_synthetic_param)

/// The enumerators of `enum class Enum_mask { none, causal };`.
std::vector<std::string> enumerators(const std::string &declaration) {
    std::vector<std::string> names;
    size_t open = declaration.find('{'), close = declaration.find('}');
    if (open == std::string::npos || close == std::string::npos) {
        return names;
    }
    std::string name;
    for (size_t i = open + 1; i <= close; i++) {
        char c = declaration[i];
        if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
            name += c;
        } else if (!name.empty()) {
            names.push_back(std::move(name));
            name.clear();
        }
    }
    return names;
}

/// "Enum_mask::causal" and "Halide::Internal::..::causal" as "causal"; "Float(32)" as "float32"; "\"x\"" as
/// "x".
std::string spelling(std::string value, const std::string &type) {
    if (type == "type") {
        struct Constructor {
            const char *cpp, *name;
        };
        for (Constructor c :
             {Constructor{"BFloat(", "bfloat"}, {"Float(", "float"}, {"UInt(", "uint"}, {"Int(", "int"}}) {
            if (size_t at = value.find(c.cpp); at != std::string::npos) {
                std::string bits;
                for (size_t i = at + std::string(c.cpp).size(); i < value.size() && std::isdigit(value[i]);
                     i++) {
                    bits += value[i];
                }
                return c.name + bits;
            }
        }
    }
    if (size_t colon = value.rfind("::"); type == "enum" && colon != std::string::npos) {
        return value.substr(colon + 2);
    }
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
        return value.substr(1, value.size() - 2);
    }
    return value;
}

} // namespace

std::vector<ParamInfo> generator_params(Halide::Internal::AbstractGenerator &generator) {
    std::vector<ParamInfo> out;
    auto *base = dynamic_cast<GeneratorBase *>(&generator);
    if (!base) {
        return out;
    }
    for (GeneratorParamBase *param : (base->*member_of(ParamInfoOf{}))().generator_params()) {
        if ((param->*member_of(IsSyntheticOf{}))() || param->name() == "target" ||
            param->name() == "autoscheduler") {
            continue;
        }
        ParamInfo info;
        info.name = param->name();
        std::string c_type = (param->*member_of(CTypeOf{}))();
        info.choices = enumerators((param->*member_of(TypeDeclsOf{}))());
        if (!info.choices.empty()) {
            info.type = "enum";
        } else if (c_type == "Type" || c_type == "Halide::Type") {
            info.type = "type";
        } else {
            info.type = c_type.substr(c_type.rfind(':') == std::string::npos ? 0 : c_type.rfind(':') + 1);
        }
        if (info.type == "bool") {
            info.choices = {"false", "true"};
        }
        try {
            info.fallback = spelling((param->*member_of(DefaultOf{}))(), info.type);
        } catch (const std::out_of_range &) {
            info.fallback = "bfloat16"; // the one type that Halide 21 cannot spell in C++
        }
        out.push_back(std::move(info));
    }
    return out;
}

std::vector<ParamInfo> generator_params(const std::string &name, const Halide::Target &target) {
    // A fresh instance, so that values are defaults; types cannot be read before it has its arguments.
    auto generator = create_generator(name, {}, target);
    generator->arginfos();
    return generator_params(*generator);
}

std::map<std::string, std::string> with_defaults(const std::string &generator,
                                                 const std::map<std::string, std::string> &given) {
    std::map<std::string, std::string> all = given;
    const std::vector<std::string> names = generator_names();
    if (std::binary_search(names.begin(), names.end(), generator)) {
        for (const ParamInfo &p : generator_params(generator, Halide::get_host_target())) {
            all.emplace(p.name, p.fallback);
        }
    }
    return all;
}

bool same_value(const std::string &a, const std::string &b) {
    auto number = [](const std::string &text) -> std::optional<double> {
        char *end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool whole = end != text.c_str() && (*end == 0 || (*end == 'f' && end[1] == 0));
        return whole ? std::optional(value) : std::nullopt;
    };
    const std::optional<double> x = number(a), y = number(b);
    return a == b || (x && y && *x == *y);
}

} // namespace kiln
