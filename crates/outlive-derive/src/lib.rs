//! `#[derive(Payload)]`: the description of a struct, for programs in other languages. Use it by
//! way of the crate `outlive`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, LitStr, Meta, parse_macro_input};

/// Describes a struct field by field, so that programs in all languages see what a message has.
///
/// The struct is `#[repr(C)]` or `#[repr(transparent)]`, and derives zerocopy's `FromBytes`,
/// `IntoBytes`, `Immutable` and `KnownLayout`, which refuse padding and types that have impossible
/// bit patterns. Its fields are numbers, structs that derive this, arrays of both, and
/// `InlineString` and `InlineVec`; the last one may be a `Tail`, behind which any number of items
/// follow: then messages are `WithTail` of the struct. Fields whose name begins with `_` are padding, which other
/// languages need not name: the description leaves them out. The struct's name there is its own, or
/// the one of `#[payload(name = "Pose")]`.
#[proc_macro_derive(Payload, attributes(payload))]
pub fn payload(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<TokenStream, Error> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "a payload is a struct"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.span(),
            "a generic struct has no description; derive it for a struct without parameters",
        ));
    }
    check_repr(input)?;
    let name = name(&input.attrs)?.unwrap_or_else(|| input.ident.to_string());
    if name.is_empty() || name.len() > 120 || name.chars().any(char::is_control) {
        return Err(Error::new(
            input.ident.span(),
            "a payload's name has 1 to 120 bytes, none of them a control character",
        ));
    }
    let this = &input.ident;
    let is_padding = |member: &syn::Member| match member {
        syn::Member::Named(ident) => ident.to_string().starts_with('_'),
        syn::Member::Unnamed(_) => false,
    };
    let described = data.fields.members().zip(&data.fields).filter(|one| !is_padding(&one.0));
    let mut described: Vec<_> = described.collect();
    let tail = described.pop_if(|(_, field)| tail_of(&field.ty).is_some());
    let fields = described.into_iter().map(|(member, field)| {
        let (name, of) = (name_of(&member), &field.ty);
        quote! {
            ::outlive::describe::Field::of::<#of>(
                #name,
                ::core::mem::offset_of!(#this, #member),
            )
        }
    });
    let fields: Vec<_> = fields.collect();
    // A struct of no bytes has another size in C and in Python.
    if fields.is_empty() {
        return Err(Error::new(this.span(), "a payload has at least one field"));
    }
    let shape = quote! {{
        const {
            assert!(::core::mem::size_of::<#this>() <= 1 << 30, "at most 1 GiB");
        }
        ::outlive::describe::Struct {
            size: ::core::mem::size_of::<#this>() as u32,
            align: ::core::mem::align_of::<#this>() as u32,
            fields: ::std::vec![#(#fields),*],
        }
    }};
    // No type has both, so a head is no message by itself, and no field of another struct.
    if let Some((member, field)) = &tail {
        let (of_tail, item) = (name_of(member), tail_of(&field.ty));
        return Ok(quote! {
            impl ::outlive::describe::HasTail for #this {
                type Item = #item;
                const NAME: &'static str = #name;
                const TAIL: &'static str = #of_tail;

                fn head() -> ::outlive::describe::Struct {
                    // The field's type is the library's, not another one of that name.
                    const _: fn(&#this) -> &::outlive::describe::Tail<#item> = |this| &this.#member;
                    #shape
                }
            }
        });
    }
    Ok(quote! {
        impl ::outlive::describe::Describe for #this {
            const NAME: &'static str = #name;

            fn describe() -> (::outlive::describe::Item, ::std::vec::Vec<u32>) {
                (::outlive::describe::Item::Struct(#shape), ::std::vec::Vec::new())
            }
        }
    })
}

fn name_of(member: &syn::Member) -> String {
    match member {
        syn::Member::Named(ident) => ident.to_string().trim_start_matches("r#").to_owned(),
        syn::Member::Unnamed(index) => index.index.to_string(),
    }
}

/// Returns what the items are, if the type is `Tail<…>`.
fn tail_of(of: &syn::Type) -> Option<&syn::Type> {
    let syn::Type::Path(path) = of else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Tail")?;
    match &last.arguments {
        syn::PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
            syn::GenericArgument::Type(item) => Some(item),
            _ => None,
        },
        _ => None,
    }
}

/// Refuses a struct whose fields the compiler may order as it likes.
fn check_repr(input: &DeriveInput) -> Result<(), Error> {
    let mut is_fixed = false;
    for attribute in input.attrs.iter().filter(|one| one.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            is_fixed |= meta.path.is_ident("C") || meta.path.is_ident("transparent");
            // `align(8)` and the like have arguments, which are the compiler's to read.
            if meta.input.peek(syn::token::Paren) {
                let arguments;
                syn::parenthesized!(arguments in meta.input);
                arguments.parse::<TokenStream>()?;
            }
            Ok(())
        })?;
    }
    if is_fixed {
        return Ok(());
    }
    Err(Error::new(
        input.ident.span(),
        "a payload is `#[repr(C)]`: otherwise the compiler orders its fields as it likes",
    ))
}

/// Returns the name of `#[payload(name = "…")]`.
fn name(attributes: &[Attribute]) -> Result<Option<String>, Error> {
    let mut name = None;
    for attribute in attributes.iter().filter(|one| one.path().is_ident("payload")) {
        if !matches!(attribute.meta, Meta::List(_)) {
            return Err(Error::new(attribute.span(), "as in `#[payload(name = \"Pose\")]`"));
        }
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("name") {
                return Err(meta.error("known is `name` alone"));
            }
            name = Some(meta.value()?.parse::<LitStr>()?.value());
            Ok(())
        })?;
    }
    Ok(name)
}
