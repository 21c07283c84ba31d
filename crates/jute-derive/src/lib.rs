//! `#[derive(EncodeRecord, DecodeRecord)]` for records that consist of their fields, in order.

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, parse_macro_input};

/// Derives `jute::Encode`, which encodes the fields in order.
#[proc_macro_derive(EncodeRecord)]
pub fn derive_encode(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let (name, (members, _)) = match fields(&input) {
        Ok(fields) => (&input.ident, fields),
        Err(error) => return error.to_compile_error().into(),
    };
    quote! {
        impl jute::Encode for #name {
            fn encode(&self, out: &mut ::std::vec::Vec<u8>) {
                #( jute::Encode::encode(&self.#members, out); )*
            }
        }
    }
    .into()
}

/// Derives `jute::Decode`, which decodes the fields in order.
#[proc_macro_derive(DecodeRecord)]
pub fn derive_decode(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let (name, (members, types)) = match fields(&input) {
        Ok(fields) => (&input.ident, fields),
        Err(error) => return error.to_compile_error().into(),
    };
    quote! {
        impl jute::Decode for #name {
            const MIN_BYTES: usize = 0 #( + <#types as jute::Decode>::MIN_BYTES )*;

            fn decode(
                input: &mut jute::Reader,
            ) -> ::std::result::Result<Self, jute::DecodeError> {
                ::std::result::Result::Ok(Self {
                    #( #members: <#types as jute::Decode>::decode(input)?, )*
                })
            }
        }
    }
    .into()
}

type FieldList<'a> = (Vec<syn::Member>, Vec<&'a syn::Type>);

fn fields(input: &DeriveInput) -> Result<FieldList<'_>, Error> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(input, "a jute record must be a struct"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "a jute record must not have generic parameters",
        ));
    }
    let types = match &data.fields {
        Fields::Named(named) => named.named.iter().map(|field| &field.ty).collect(),
        Fields::Unnamed(unnamed) => unnamed.unnamed.iter().map(|field| &field.ty).collect(),
        Fields::Unit => Vec::new(),
    };
    Ok((data.fields.members().collect(), types))
}
